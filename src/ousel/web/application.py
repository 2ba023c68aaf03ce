"""The edge, which takes each request through the same few steps.

Find the route, know the caller, keep the limits, decode, serve, answer; and turn every refusal
into a problem answer on the way out.
"""

from collections.abc import Iterable
from http import HTTPStatus
from time import perf_counter
from typing import Any, Final

import msgspec
import structlog

from ousel.kernel.errors import Refusal
from ousel.kernel.settings import Settings
from ousel.web.bodies import decode_body, decode_form, decode_query, is_form, whole_body
from ousel.web.gate import Gate
from ousel.web.problems import problem_answer
from ousel.web.refusals import (
    InternalError,
    MethodNotAllowed,
    NotFound,
)
from ousel.web.requests import Request, Response, head_of, lines
from ousel.web.routes import Answer, Call, Headers, NoBody, NoQuery, RawHeader, Route
from ousel.web.site import Site
from ousel.web.table import RouteTable
from ousel.web.troubles import Troubles
from ousel.web.visits import PageRoute
from ousel.web.watch import Watch

_NO_QUERY: Final = NoQuery()
_NO_BODY: Final = NoBody()
_HEAD: Final = b"x-request-id: %b\r\n%b%b"
_SECURITY_HEADERS: Final[tuple[RawHeader, ...]] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
_STRICT_TRANSPORT: Final = (b"strict-transport-security", b"max-age=31536000; includeSubDomains")

_log = structlog.get_logger()


class Application:
    """Serves the routes."""

    def __init__(
        self,
        routes: Iterable[Route | PageRoute],
        gate: Gate,
        troubles: Troubles,
        site: Site,
        settings: Settings,
        watch: Watch,
    ) -> None:
        """Serve these routes: the interface to those whom the gate admits, pages to visitors."""
        self._table = RouteTable(routes)
        self._site = site
        self._gate = gate
        self._troubles = troubles
        self._watch = watch
        self._docs_url = f"{settings.portal_url}/docs"
        self._base_url, self._base_path = settings.base_url, settings.base_path
        common = _SECURITY_HEADERS
        if settings.portal_url.startswith("https:"):
            common += (_STRICT_TRANSPORT,)
        self._common = {name: lines((name, value)) for name, value in common}
        self._common_lines = b"".join(self._common.values())
        self._beside: dict[tuple[bytes, ...], bytes] = {}  # what is left of them

    async def respond(self, request: Request) -> Response:
        """Serve one request."""
        started = perf_counter()
        request_id = self._watch.new_request_id()
        answer = await self._answer(request, request_id)
        seconds = perf_counter() - started
        try:
            trace = self._watch.answered(request, answer, request_id, seconds)
            head = _HEAD % (
                request_id.encode(),
                head_of(answer),
                self._common_beside(answer) if answer.headers else self._common_lines,
            )
            if trace is not None:
                head += lines((b"traceresponse", trace.response))
        except Exception:  # noqa: BLE001 - an answer that cannot be told is a failure like others
            request.is_last = True
            answer = self._failure(request, request_id)
            head = _HEAD % (request_id.encode(), head_of(answer), self._common_lines)
        return Response(answer.status, head, answer.body, answer.stream)

    async def _answer(self, request: Request, request_id: str) -> Answer:
        if request.refusal is not None:
            return problem_answer(request.refusal, request_id, self._docs_url)
        headers: list[RawHeader] = []
        try:
            return await self._serve(request, request_id, headers)
        except (NotFound, MethodNotAllowed) as refusal:
            return await self._nothing_there(refusal, request, request_id, headers)
        except Refusal as refusal:
            if refusal.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                cause = repr(refusal.__cause__ or refusal)
                _log.error("unavailable", request_id=request_id, code=refusal.code, cause=cause)
            return problem_answer(refusal, request_id, self._docs_url, tuple(headers))
        except Exception:  # noqa: BLE001 - the last stop: whatever it is, the caller is answered
            return self._failure(request, request_id, tuple(headers))

    def _failure(
        self, request: Request, request_id: str, headers: tuple[RawHeader, ...] = ()
    ) -> Answer:
        """Log the failure that is being handled, and return the answer that tells it."""
        _log.exception("internal error", request_id=request_id, path=request.path)
        failure = InternalError("The server failed to answer this request.")
        return problem_answer(failure, request_id, self._docs_url, headers)

    async def _nothing_there(
        self,
        refusal: NotFound | MethodNotAllowed,
        request: Request,
        request_id: str,
        extra: list[RawHeader],
    ) -> Answer:
        allow = refusal.members.pop("allow", "")
        headers = (*extra, (b"allow", allow.encode())) if allow else tuple(extra)
        if isinstance(refusal, NotFound) and self._table.has(f"{self._base_path}{request.path}"):
            refusal = NotFound(f"There is nothing at this path: begin it with {self._base_url}.")
        if not self._site.is_visited_by(request):
            return problem_answer(refusal, request_id, self._docs_url, headers)
        page = await self._site.problem(refusal, request, request_id)
        return msgspec.structs.replace(page, headers=(*page.headers, *headers))

    async def _serve(self, request: Request, request_id: str, extra: list[RawHeader]) -> Answer:
        """Take the request through its steps; `extra` gathers headers that every outcome has."""
        headers = request.headers
        if request.method == "OPTIONS" and b"access-control-request-method" in headers:
            return await self._gate.preflight(headers)
        route, path = await self._found(request, extra)
        request.route = route
        if isinstance(route, PageRoute):
            return await self._site.answer(route, path, request, request_id)
        caller = request.caller = self._gate.caller_seen(
            route, headers
        ) or await self._gate.known_caller(route, headers, extra)
        try:
            if caller is not None:
                await self._gate.admit(caller, route, headers, extra)
            call: Call[Any, Any] = Call(
                path=path,
                caller=caller,
                query=_query_of(route, request.query),
                body=_body_of(route, request),
                headers=headers,
                extra=extra,
                request_id=request_id,
            )
            answer = await route.handle(call)
        except Refusal as refusal:
            await self._confirm(route, headers, refusal, extra)
            if caller is not None:
                self._troubles.note(caller, route, refusal, request_id)
            if route.refused is None or refusal.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            answer = msgspec.structs.replace(route.refused(refusal), code=refusal.code)
        if not extra:
            return answer
        return msgspec.structs.replace(answer, headers=(*answer.headers, *extra))

    async def _found(
        self, request: Request, extra: list[RawHeader]
    ) -> tuple[Route | PageRoute, dict[str, str]]:
        """Return the route with its path; where there is none, `extra` lets any app's page know."""
        try:
            return self._table.find(request.method, request.path)
        except (NotFound, MethodNotAllowed):
            extra.extend(await self._gate.told(request.headers))
            raise

    async def _confirm(
        self, route: Route, headers: Headers, refusal: Refusal, extra: list[RawHeader]
    ) -> None:
        """Look again at a key that nothing was posted by: if it has ended, only that is told."""
        if not route.shows_warrant or refusal.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return
        told = extra.copy()
        extra.clear()
        await self._gate.known_caller(route, headers, extra)
        extra.extend(told)

    def _common_beside(self, answer: Answer) -> bytes:
        """Return the lines that every answer has, but for those that this one gives itself."""
        given = tuple([name for name, _ in answer.headers])
        beside = self._beside.get(given)
        if beside is None:
            left = [line for name, line in self._common.items() if name not in given]
            beside = self._beside[given] = b"".join(left)
        return beside


def _query_of(route: Route, query: bytes) -> Any:
    if not query and route.query is NoQuery:
        return _NO_QUERY
    return decode_query(query, route.query)


def _body_of(route: Route, request: Request) -> Any:
    if route.body is NoBody and (route.method == "GET" or request.body == b""):
        return _NO_BODY
    body = whole_body(request)
    if route.takes_forms and is_form(request.headers):
        return decode_form(body, route.body)
    return decode_body(body, request.headers, route.body)
