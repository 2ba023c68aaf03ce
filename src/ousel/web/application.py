"""The edge: an ASGI application that takes each request through the same few steps.

Find the route, know the caller, keep the limits, decode, serve, answer; and turn every refusal
into a problem answer on the way out.
"""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from http import HTTPStatus
from time import perf_counter
from typing import Any, Final

import msgspec
import structlog

from ousel.kernel.errors import Refusal
from ousel.kernel.settings import Settings
from ousel.web.bodies import decode_body, decode_form, decode_query, is_form, read_body
from ousel.web.gate import Gate
from ousel.web.problems import problem_answer
from ousel.web.refusals import (
    InternalError,
    MethodNotAllowed,
    NotFound,
)
from ousel.web.routes import Answer, Call, Headers, NoBody, NoQuery, RawHeader, Route
from ousel.web.site import Site
from ousel.web.table import RouteTable
from ousel.web.troubles import Troubles
from ousel.web.visits import PageRoute
from ousel.web.watch import Watch

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_NO_QUERY: Final = NoQuery()
_NO_BODY: Final = NoBody()
_WITHOUT_CONTENT: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
_SECURITY_HEADERS: Final[tuple[RawHeader, ...]] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
_STRICT_TRANSPORT: Final = (b"strict-transport-security", b"max-age=31536000; includeSubDomains")

_log = structlog.get_logger()


class Application:
    """Serves the routes over ASGI."""

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
        self._headers = _SECURITY_HEADERS
        if settings.portal_url.startswith("https:"):
            self._headers += (_STRICT_TRANSPORT,)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        assert scope["type"] == "http"
        started = perf_counter()
        request_id = self._watch.new_request_id()
        answer = await self._answer(scope, receive, request_id)
        headers = self._with_common_headers(answer, request_id)
        seconds = perf_counter() - started
        trace = self._watch.answered(scope, answer.status, answer.code, request_id, seconds)
        if trace is not None:
            headers.append((b"traceresponse", trace.response))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        if answer.stream is not None:
            async for piece in answer.stream:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, scope: Scope, receive: Receive, request_id: str) -> Answer:
        headers: list[RawHeader] = []
        try:
            return await self._serve(scope, receive, request_id, headers)
        except (NotFound, MethodNotAllowed) as refusal:
            return await self._nothing_there(refusal, scope, request_id)
        except Refusal as refusal:
            if refusal.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                _log.error("unavailable", request_id=request_id, code=refusal.code)
            return problem_answer(refusal, request_id, self._docs_url, tuple(headers))
        except Exception:  # noqa: BLE001 - the last stop: whatever it is, the caller is answered
            _log.exception("internal error", request_id=request_id, path=scope["path"])
            failure = InternalError("The server failed to answer this request.")
            return problem_answer(failure, request_id, self._docs_url, tuple(headers))

    async def _nothing_there(
        self, refusal: NotFound | MethodNotAllowed, scope: Scope, request_id: str
    ) -> Answer:
        allow = refusal.members.pop("allow", "")
        headers = ((b"allow", allow.encode()),) if allow else ()
        if not self._site.is_visited_by(scope):
            return problem_answer(refusal, request_id, self._docs_url, headers)
        page = await self._site.problem(refusal, scope, request_id)
        return msgspec.structs.replace(page, headers=(*page.headers, *headers))

    async def _serve(
        self, scope: Scope, receive: Receive, request_id: str, extra: list[RawHeader]
    ) -> Answer:
        """Take the request through its steps; `extra` gathers headers that every outcome has."""
        headers = _by_name(scope["headers"])
        scope["traceparent"] = headers.get(b"traceparent")
        if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
            return await self._gate.preflight(headers)
        route, path = self._table.find(scope["method"], scope["raw_path"].decode("latin-1"))
        scope["route"] = route
        if isinstance(route, PageRoute):
            return await self._site.answer(route, path, scope, receive, request_id)
        caller = scope["caller"] = await self._gate.known_caller(route, headers)
        try:
            if caller is not None:
                await self._gate.admit(caller, route, headers, extra)
            call: Call[Any, Any] = Call(
                path=path,
                caller=caller,
                query=_query_of(route, scope["query_string"]),
                body=await _body_of(route, headers, receive),
                headers=headers,
                request_id=request_id,
            )
            answer = await route.handle(call)
        except Refusal as refusal:
            if caller is not None:
                self._troubles.note(caller, route, refusal, request_id)
            if route.refused is None or refusal.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            return msgspec.structs.replace(route.refused(refusal), code=refusal.code)
        if not extra:
            return answer
        return Answer(answer.status, answer.body, answer.content_type, (*answer.headers, *extra))

    def _with_common_headers(self, answer: Answer, request_id: str) -> list[RawHeader]:
        headers = list(answer.headers)
        headers.append((b"x-request-id", request_id.encode()))
        if answer.status not in _WITHOUT_CONTENT:
            headers.append((b"content-type", answer.content_type))
            if answer.stream is None:
                headers.append((b"content-length", b"%d" % len(answer.body)))
        given = {name for name, _ in answer.headers}
        headers.extend(header for header in self._headers if header[0] not in given)
        return headers


def _by_name(raw: Sequence[RawHeader]) -> Headers:
    """Return headers by name; one that is sent twice is one list (RFC 9110, section 5.3)."""
    headers = dict(raw)
    if len(headers) != len(raw):
        headers.clear()
        for name, value in raw:
            headers[name] = headers[name] + b", " + value if name in headers else value
    return headers


def _query_of(route: Route, query_string: bytes) -> Any:
    if not query_string and route.query is NoQuery:
        return _NO_QUERY
    return decode_query(query_string, route.query)


async def _body_of(route: Route, headers: Headers, receive: Receive) -> Any:
    if route.body is NoBody:
        return _NO_BODY
    body = await read_body(headers, receive)
    if route.takes_forms and is_form(headers):
        return decode_form(body, route.body)
    return decode_body(body, headers, route.body)
