"""The endpoint server of a sandbox: it records and disturbs the calls of apps that rehearse."""

import asyncio
from typing import Final

import msgspec

from ousel.api.authentication import ApiAuthenticator
from ousel.api.callers import Partner, User
from ousel.api.disturbances import disturbed_route, parse_disturbance
from ousel.api.endpoint_server import EndpointServer
from ousel.api.route import Route
from ousel.http.messages import Answer, AnswerDropped, RawHeader, Request
from ousel.kernel.errors import Refusal
from ousel.lab.events import LabEvents
from ousel.lab.recording import (
    EXCHANGE,
    code_in,
    record_answer,
    record_lost_answer,
    record_refusal,
    record_request,
)
from ousel.lab.rules import created_charges
from ousel.lab.service import ArrivedCall, LabService

_OWN_PATHS: Final = "/sandbox/"  # test tools, not calls that a client makes in production


class LabServer:
    """Passes each call on to the endpoint server."""

    def __init__(
        self,
        endpoints: EndpointServer,
        authenticator: ApiAuthenticator,
        lab: LabService,
        events: LabEvents,
        base_path: str,
    ) -> None:
        """Record the calls of the apps that rehearse in this lab."""
        self._endpoints = endpoints
        self._authenticator = authenticator
        self._lab = lab
        self._events = events
        self._own_paths = f"{base_path}{_OWN_PATHS}"

    async def answer(
        self,
        route: Route,
        path: dict[str, str],
        request: Request,
        request_id: str,
        extra_headers: list[RawHeader],
    ) -> Answer:
        """Serve one request as the endpoint server does."""
        arrived = await self._record_call(route, path, request)
        if arrived is None:
            return await self._endpoints.answer(route, path, request, request_id, extra_headers)
        call = msgspec.structs.replace(arrived.call, event=None)
        try:
            event = await self._events.carry_out(arrived, request)
            call = msgspec.structs.replace(call, event=event)
            if arrived.plan.disturbance is not None:
                disturbance = parse_disturbance(arrived.plan.disturbance.encode())
                route = disturbed_route(route, disturbance)
            answer = await self._endpoints.answer(route, path, request, request_id, extra_headers)
        except AnswerDropped as dropped:
            await self._lab.end_call(arrived, record_lost_answer(call, dropped))
            raise
        except asyncio.CancelledError:
            await self._lab.end_call(arrived, call)
            raise
        except Refusal as refusal:
            await self._lab.end_call(arrived, record_refusal(call, refusal))
            raise
        created = created_charges(arrived.earlier)
        await self._lab.end_call(arrived, record_answer(call, answer, created))
        return answer

    async def _record_call(
        self, route: Route, path: dict[str, str], request: Request
    ) -> ArrivedCall | None:
        """Record the call if its app rehearses; None if it does not."""
        if route.path.startswith(self._own_paths) or route.access == "public":
            return None
        if route.access == "client":
            return await self._record_exchange(route, path, request)
        caller = await self._caller(route, request)
        rehearsal = None if caller is None else await self._lab.running_rehearsal(caller.client_id)
        if rehearsal is None:
            return None
        return await self._lab.begin_call(rehearsal, record_request(route, path, request, caller))

    async def _record_exchange(
        self, route: Route, path: dict[str, str], request: Request
    ) -> ArrivedCall | None:
        """Record an attempt to exchange the code of a forged return."""
        code = code_in(request) if route.name == EXCHANGE else None
        rehearsal = None if code is None else await self._lab.running_rehearsal_with_code(code)
        if rehearsal is None:
            return None
        call = record_request(route, path, request, None)
        return await self._lab.begin_call(rehearsal, msgspec.structs.replace(call, is_forged=True))

    async def _caller(self, route: Route, request: Request) -> Partner | User | None:
        try:
            return await self._authenticator.authenticate(route, request.headers, [])
        except Refusal:
            return None
