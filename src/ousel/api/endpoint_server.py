"""The endpoint server: takes each API request through the same few steps.

It authenticates the caller, enforces the limits, decodes the request and calls the endpoint. If
the request is refused, it records the error for the app's developer.
"""

from http import HTTPStatus
from typing import Any, Final

import msgspec

from ousel.api.authentication import ApiAuthenticator
from ousel.api.decoding import decode_body, decode_form, decode_query, is_form
from ousel.api.disturbances import REHEARSE, SandboxOnly, disturbed_route, parse_disturbance
from ousel.api.error_log import ApiErrorRecorder
from ousel.api.route import Call, NoBody, NoQuery, Route
from ousel.http.messages import Answer, RawHeader, Request, whole_body
from ousel.kernel.errors import Refusal

_NO_QUERY: Final = NoQuery()
_NO_BODY: Final = NoBody()


class EndpointServer:
    """Serves the routes of the API."""

    def __init__(
        self,
        authenticator: ApiAuthenticator,
        error_recorder: ApiErrorRecorder,
        *,
        is_sandbox: bool = False,
    ) -> None:
        """Authenticate callers with this authenticator, and record refused calls."""
        self._authenticator = authenticator
        self._error_recorder = error_recorder
        self._is_sandbox = is_sandbox

    async def answer(
        self,
        route: Route,
        path: dict[str, str],
        request: Request,
        request_id: str,
        extra_headers: list[RawHeader],
    ) -> Answer:
        """Serve one request; `extra_headers` collects headers that every outcome carries."""
        headers = request.headers
        caller = request.caller = self._authenticator.cached_caller(
            route, headers
        ) or await self._authenticator.authenticate(route, headers, extra_headers)
        try:
            if caller is not None:
                if b"origin" in headers:
                    await self._authenticator.check_origin(
                        caller, headers[b"origin"], extra_headers
                    )
                self._authenticator.enforce_limits(caller, route, extra_headers)
            if REHEARSE in headers:
                route = self._rehearsed_route(route, headers[REHEARSE])
            call: Call[Any, Any] = Call(
                path=path,
                caller=caller,
                query=_decode_query(route, request.query),
                body=_decode_body(route, request),
                headers=headers,
                extra_headers=extra_headers,
                request_id=request_id,
            )
            answer = await route.endpoint(call)
        except Refusal as refusal:
            await self._authenticator.recheck_key(route, headers, refusal, extra_headers)
            if caller is not None:
                self._error_recorder.record(caller, route, refusal, request_id)
            if route.refusal_format is None or refusal.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            answer = msgspec.structs.replace(route.refusal_format(refusal), code=refusal.code)
        if not extra_headers:
            return answer
        return msgspec.structs.replace(answer, headers=(*answer.headers, *extra_headers))

    def _rehearsed_route(self, route: Route, disturbance: bytes) -> Route:
        """Return the route with the failure that the caller wants to rehearse."""
        if not self._is_sandbox:
            raise SandboxOnly("Only a sandbox rehearses failures.", param="Ousel-Rehearse")
        return disturbed_route(route, parse_disturbance(disturbance))


def _decode_query(route: Route, query: bytes) -> Any:
    if not query and route.query is NoQuery:
        return _NO_QUERY
    return decode_query(query, route.query)


def _decode_body(route: Route, request: Request) -> Any:
    if route.body is NoBody and (route.method == "GET" or request.body == b""):
        return _NO_BODY
    body = whole_body(request)
    if route.takes_forms and is_form(request.headers):
        return decode_form(body, route.body)
    return decode_body(body, request.headers, route.body)
