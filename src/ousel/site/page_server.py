"""The page server: creates the visit for each page, and turns refusals into pages."""

import contextlib
import re
import secrets
from collections.abc import Callable
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import quote, urlsplit

import msgspec

from ousel.http.messages import Answer, Request
from ousel.http.refusals import InternalError, NotFound, log_if_failure
from ousel.kernel.errors import IdentityCheckNeeded, Refusal
from ousel.kernel.logs import EventLogger
from ousel.kernel.settings import Settings
from ousel.site.cookies import Cookies
from ousel.site.forms import NUL, FormNotTrusted, check_form, form_token, read_form, read_query
from ousel.site.redirects import local_path, see_other
from ousel.site.rendering import PageRenderer
from ousel.site.visits import IdentityChecks, PageRoute, Sessions, Visit

ADDRESS_CHARACTERS_MAX: Final = 100
PAGE_SEGMENTS_MAX: Final = 8  # no page has an address with more
DEVICE_CHARACTERS_MAX: Final = 300

_IPV4_IN_IPV6: Final = "::ffff:"  # how a socket for both names the addresses of IPv4
_WITH_PORT: Final = re.compile(r"([0-9.]+):[0-9]+|\[([^\]]+)\](?::[0-9]+)?")

_log = EventLogger()


class PageServer:
    """Serves pages to visitors."""

    def __init__(
        self,
        sessions: Sessions,
        identity_checks: IdentityChecks,
        pages: PageRenderer,
        settings: Settings,
        has_page: Callable[[str], bool],
    ) -> None:
        """Serve pages, and look up sessions with `sessions`; `has_page` knows their addresses."""
        self._sessions = sessions
        self._identity_checks = identity_checks
        self._pages = pages
        self._origin = settings.portal_url  # it has no path: see settings
        self._base_path = settings.base_path
        self._proxies = settings.trusted_proxies
        self._has_page = has_page
        self.cookies = Cookies(secure=settings.portal_url.startswith("https:"))

    def expects_page(self, request: Request) -> bool:
        """Return whether a request without a route comes from a browser that expects a page."""
        accept = request.headers.get(b"accept", b"")
        if self._base_path and request.path.startswith(f"{self._base_path}/"):
            return False
        return b"text/html" in accept

    async def answer(
        self, route: PageRoute, path: dict[str, str], request: Request, request_id: str
    ) -> Answer:
        """Return the answer of a page."""
        known_visitor = self.cookies.visitor(request.headers)
        visitor = known_visitor or secrets.token_urlsafe(24)
        visit = self._anonymous_visit(request, visitor, request_id)
        try:
            visit = await self._identify(visit, path)
            if not route.reads_query_itself:
                visit = msgspec.structs.replace(visit, query=read_query(request))
            if route.method == "POST":
                form = read_form(request, may_have_files=route.may_have_files)
                visit = msgspec.structs.replace(visit, form=form)
                check_form(visit, self._own_origins(visit), _form_tokens(visit, route))
            if visit.person is None and not route.for_everyone:
                answer = see_other(f"/login?next={quote(self._return_address(visit), safe='')}")
            else:
                answer = await self._answer_or_ask(route, visit)
        except Refusal as refusal:
            log_if_failure(refusal, request_id)
            answer = self._problem_page(refusal, visit)
        except Exception:  # noqa: BLE001 - whatever failed, the visitor gets an answer
            _log.exception("internal error", request_id=request_id, path=request.path)
            answer = self._problem_page(InternalError("Something failed on our side."), visit)
        if known_visitor is None:
            cookie = self.cookies.remember_visitor(visitor)
            answer = msgspec.structs.replace(answer, headers=(*answer.headers, cookie))
        return answer

    async def _answer_or_ask(self, route: PageRoute, visit: Visit) -> Answer:
        """Return the route's answer, or the page that asks the person to prove who they are."""
        try:
            visit = await self._identity_checks.check(visit)
            return await route.answer(visit)
        except IdentityCheckNeeded as refusal:
            return await self._identity_checks.ask(visit, refusal)

    async def problem(self, refusal: Refusal, request: Request, request_id: str) -> Answer:
        """Return the page for a refusal that happened before any route was found."""
        visit = self._anonymous_visit(request, "", request_id)
        with contextlib.suppress(Refusal):  # if this fails, the visitor counts as signed out
            visit = await self._identify(visit, {})
            visit = msgspec.structs.replace(visit, query=read_query(request))
        return self._problem_page(refusal, visit)

    def _anonymous_visit(self, request: Request, visitor: str, request_id: str) -> Visit:
        """Return the visit before its session is looked up and its fields are parsed."""
        headers = request.headers
        query = request.query.decode("latin-1")
        return Visit(
            method=request.method,
            path={},
            query={},
            form={},
            headers=headers,
            url=f"{request.path}?{query}" if query else request.path,
            person=None,
            visitor=visitor,
            form_token=form_token(self.cookies.session(headers) or visitor),
            ip_address=self._address_of(request)[:ADDRESS_CHARACTERS_MAX],
            device=headers.get(b"user-agent", b"").decode("latin-1")[:DEVICE_CHARACTERS_MAX],
            request_id=request_id,
        )

    def _address_of(self, request: Request) -> str:
        """Return the visitor's IP address, which trusted proxies pass on in X-Forwarded-For."""
        forwarded = request.headers.get(b"x-forwarded-for")
        if forwarded is None and not request.ip_address.startswith(_IPV4_IN_IPV6):
            return request.ip_address
        address = _parse_address(request.ip_address)
        hops = (forwarded or b"").decode("latin-1").split(",")
        while hops and address is not None and self._is_proxy(address):
            hop = _parse_address(hops.pop().strip())
            if hop is None:  # the proxy has passed on no address
                break
            address = hop
        return request.ip_address if address is None else str(address)

    def _is_proxy(self, address: IPv4Address | IPv6Address) -> bool:
        return any(address in network for network in self._proxies)

    async def _identify(self, visit: Visit, path: dict[str, str]) -> Visit:
        """Return the visit with its person and its path parameters."""
        session = self.cookies.session(visit.headers)
        if session is not None:
            visit = msgspec.structs.replace(visit, person=await self._sessions.person(session))
        if any(NUL in value for value in path.values()):
            raise NotFound("There is nothing at this path.")
        return msgspec.structs.replace(visit, path=path)

    def _problem_page(self, refusal: Refusal, visit: Visit) -> Answer:
        failed = refusal.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        may_send_again = visit.method == "POST" and (failed or isinstance(refusal, FormNotTrusted))
        again = self._referring_page(visit) if may_send_again else None
        return msgspec.structs.replace(
            self._pages.render_problem(refusal, visit, again=again), code=refusal.code
        )

    def _own_origins(self, visit: Visit) -> set[str]:
        """Return the site's configured origin, and the one that this visitor used."""
        host = visit.headers.get(b"host", b"").decode("latin-1")
        return {self._origin, f"{urlsplit(self._origin).scheme}://{host}"}

    def _return_address(self, visit: Visit) -> str:
        """Return the page to come back to after signing in: this one, or the one with the form.

        The page with the form keeps its query, except `done`, whose message would be out of date.
        """
        if visit.method != "POST":
            return visit.url
        path, _, query = (self._referring_page(visit) or "/").partition("?")
        kept = "&".join(each for each in query.split("&") if not each.startswith("done="))
        return f"{path}?{kept}" if kept else path

    def _referring_page(self, visit: Visit) -> str | None:
        """Return the page of this site whose form was sent, if the browser names it."""
        referrer = visit.headers.get(b"referer", b"").decode("latin-1")
        for origin in self._own_origins(visit):
            if referrer.startswith(f"{origin}/"):
                return self._nearest_page(local_path(referrer.removeprefix(origin), "/"))
        return None

    def _nearest_page(self, address: str) -> str:
        """Return the address of a page, or of the next page above it.

        The answer to a form is shown at the form's address, where there is nothing to open.
        """
        path = address.partition("?")[0]
        if self._has_page(path):
            return address
        segments = path.split("/", PAGE_SEGMENTS_MAX)[:PAGE_SEGMENTS_MAX]
        above = ("/".join(segments[:count]) for count in range(len(segments), 1, -1))
        return next(filter(self._has_page, above), "/")


def _form_tokens(visit: Visit, route: PageRoute) -> list[str]:
    """Return the tokens that a form may have.

    A form that opens a session was shown before there was one. If it is sent twice, the browser may
    have the new session already.
    """
    return [visit.form_token, *([form_token(visit.visitor)] if route.opens_session else [])]


def _parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address in a text, which may have a port; None if there is none.

    An address that is IPv4 mapped to IPv6 becomes plain IPv4.
    """
    with_port = _WITH_PORT.fullmatch(text)
    try:
        address = ip_address((with_port[1] or with_port[2]) if with_port else text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
