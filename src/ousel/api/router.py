"""The router: finds the route for each request, and turns refusals into problems."""

import asyncio
import contextlib
from collections.abc import Awaitable, Iterable
from time import perf_counter
from typing import Any, Final, Protocol

import msgspec

from ousel.api.authentication import ApiAuthenticator
from ousel.api.observers import RequestObservers
from ousel.api.problems import problem_answer
from ousel.api.route import Route
from ousel.api.route_table import RouteLike, RouteTable
from ousel.http.messages import (
    Answer,
    AnswerDropped,
    Headers,
    RawHeader,
    Request,
    Response,
    answer_head,
    header_lines,
)
from ousel.http.refusals import InternalError, MethodNotAllowed, NotFound, log_if_failure
from ousel.kernel.deadlines import set_deadline
from ousel.kernel.errors import Refusal, release_frames
from ousel.kernel.logs import EventLogger
from ousel.kernel.settings import Settings

_HEAD: Final = b"x-request-id: %b\r\n%b%b"
_SECURITY_HEADERS: Final[tuple[RawHeader, ...]] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
_STRICT_TRANSPORT: Final = (b"strict-transport-security", b"max-age=31536000; includeSubDomains")

# The status under which the observers count a request that got no answer because its client hung
# up, or because a rehearsal dropped the answer. Nginx logs the same status for hang-ups.
_HUNG_UP: Final = Answer(499, b"")

_log = EventLogger()


class ApiServer(Protocol):
    """Serves the routes of the API."""

    async def answer(
        self,
        route: Route,
        path: dict[str, str],
        request: Request,
        request_id: str,
        extra_headers: list[RawHeader],
    ) -> Answer:
        """Serve one request; `extra_headers` collects headers that every outcome carries."""
        ...


class PageServer(Protocol):
    """Serves pages."""

    def expects_page(self, request: Request) -> bool:
        """Return whether a request without a route comes from a browser that expects a page."""
        ...

    async def answer(
        self, route: Any, path: dict[str, str], request: Request, request_id: str
    ) -> Answer:
        """Return the answer of a page."""
        ...

    async def problem(self, refusal: Refusal, request: Request, request_id: str) -> Answer:
        """Return the page for a refusal that happened before any route was found."""
        ...


class Router:
    """Answers every request with the answer of an endpoint, a page or a problem."""

    def __init__(
        self,
        routes: Iterable[RouteLike],
        authenticator: ApiAuthenticator,
        endpoints: ApiServer,
        pages: PageServer,
        settings: Settings,
        observers: RequestObservers,
    ) -> None:
        """Serve these routes: the API's with the endpoint server, all others as pages."""
        self._table = RouteTable(routes)
        self._authenticator = authenticator
        self._endpoints = endpoints
        self._pages = pages
        self._observers = observers
        self._deadline_seconds = settings.deadline_seconds
        self._docs_url = f"{settings.portal_url}/docs"
        self._base_url, self._base_path = settings.base_url, settings.base_path
        common = _SECURITY_HEADERS
        if settings.portal_url.startswith("https:"):
            common += (_STRICT_TRANSPORT,)
        self._common_headers = {name: header_lines((name, value)) for name, value in common}
        self._common_lines = b"".join(self._common_headers.values())
        # Keyed by the names of the headers that an answer sets itself.
        self._other_common_lines: dict[tuple[bytes, ...], bytes] = {}

    async def respond(self, request: Request) -> Response:
        """Return the response to a request."""
        started = perf_counter()
        if request.arrived_at is not None:
            started -= asyncio.get_running_loop().time() - request.arrived_at
        if request.method not in {"GET", "HEAD"}:
            self._set_deadline(request)
        request_id = self._observers.new_request_id()
        try:
            answer = await self._answer(request, request_id)
        except (asyncio.CancelledError, AnswerDropped):
            self._observers.notify(request, _HUNG_UP, request_id, perf_counter() - started)
            raise
        seconds = perf_counter() - started
        try:
            trace = self._observers.notify(request, answer, request_id, seconds)
            head = _HEAD % (
                request_id.encode(),
                answer_head(answer),
                self._common_lines_without(answer) if answer.headers else self._common_lines,
            )
            if trace is not None:
                head += header_lines((b"traceresponse", trace.response_header))
        except Exception:  # noqa: BLE001 - an answer that cannot be sent is an internal error
            request.is_last = True
            answer = self._internal_error(request, request_id)
            head = _HEAD % (request_id.encode(), answer_head(answer), self._common_lines)
        return Response(answer.status, head, answer.body, answer.stream)

    def give_up(self, request: Request) -> None:
        """Note that the client has hung up before its request was begun."""
        assert request.arrived_at is not None, "it has waited for its turn"
        with contextlib.suppress(NotFound, MethodNotAllowed):
            request.route, _ = self._table.find(request.method, request.path)
        seconds = asyncio.get_running_loop().time() - request.arrived_at
        self._observers.notify(request, _HUNG_UP, self._observers.new_request_id(), seconds)

    def has_page(self, path: str) -> bool:
        """Return whether a browser can open this path."""
        try:
            route, _ = self._table.find("GET", path)
        except (NotFound, MethodNotAllowed):
            return False
        return not isinstance(route, Route)

    def _set_deadline(self, request: Request) -> None:
        arrived_at = request.arrived_at
        if arrived_at is None:
            arrived_at = asyncio.get_running_loop().time()
        set_deadline(arrived_at + self._deadline_seconds)

    async def _answer(self, request: Request, request_id: str) -> Answer:
        if request.refusal is not None:
            return problem_answer(request.refusal, request_id, self._docs_url)
        headers: list[RawHeader] = []
        try:
            return await self._serve(request, request_id, headers)
        except (NotFound, MethodNotAllowed) as refusal:
            answer = await self._not_found(refusal, request, request_id, headers)
            release_frames(refusal)
            return answer
        except Refusal as refusal:
            log_if_failure(refusal, request_id)
            answer = problem_answer(refusal, request_id, self._docs_url, tuple(headers))
            release_frames(refusal)
            return answer
        except AnswerDropped:
            raise
        except Exception:  # noqa: BLE001 - whatever failed, the caller gets an answer
            return self._internal_error(request, request_id, tuple(headers))

    def _internal_error(
        self, request: Request, request_id: str, headers: tuple[RawHeader, ...] = ()
    ) -> Answer:
        """Log the current exception, and return the answer for it."""
        _log.exception("internal error", request_id=request_id, path=request.path)
        failure = InternalError("The server failed to answer this request.")
        return problem_answer(failure, request_id, self._docs_url, headers)

    async def _not_found(
        self,
        refusal: NotFound | MethodNotAllowed,
        request: Request,
        request_id: str,
        extra_headers: list[RawHeader],
    ) -> Answer:
        allow = refusal.members.pop("allow", "")
        headers = (*extra_headers, (b"allow", allow.encode())) if allow else tuple(extra_headers)
        if isinstance(refusal, NotFound) and self._table.has(f"{self._base_path}{request.path}"):
            refusal = NotFound(
                f"There is nothing at this path. The API's addresses begin with {self._base_url}."
            )
        if not self._pages.expects_page(request):
            return problem_answer(refusal, request_id, self._docs_url, headers)
        page = await self._pages.problem(refusal, request, request_id)
        return msgspec.structs.replace(page, headers=(*page.headers, *headers))

    def _serve(
        self, request: Request, request_id: str, extra_headers: list[RawHeader]
    ) -> Awaitable[Answer]:
        """Find and call the route; `extra_headers` collects headers that a refusal carries too."""
        headers = request.headers
        if request.method == "OPTIONS" and b"access-control-request-method" in headers:
            return self._authenticator.preflight(headers)
        try:
            route, path = self._table.find(request.method, request.path)
        except (NotFound, MethodNotAllowed) as refusal:
            return self._refuse(refusal, headers, extra_headers)
        request.route = route
        if isinstance(route, Route):
            return self._endpoints.answer(route, path, request, request_id, extra_headers)
        return self._pages.answer(route, path, request, request_id)

    async def _refuse(
        self, refusal: Refusal, headers: Headers, extra_headers: list[RawHeader]
    ) -> Answer:
        """Raise the refusal of a request without a route, after adding CORS headers."""
        extra_headers.extend(await self._authenticator.cors_headers(headers))
        raise refusal

    def _common_lines_without(self, answer: Answer) -> bytes:
        """Return the common header lines, except those that the answer sets itself."""
        own_names = tuple([name for name, _ in answer.headers])
        lines = self._other_common_lines.get(own_names)
        if lines is None:
            others = [line for name, line in self._common_headers.items() if name not in own_names]
            lines = self._other_common_lines[own_names] = b"".join(others)
        return lines
