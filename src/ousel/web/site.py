"""The site: pages for people, with their sessions, forms and refusals.

Every form carries a token derived from the visitor's own cookie, so that no other site can post
it (and the Origin header, where a browser sends one, must be ours).
"""

import contextlib
import hashlib
import hmac
import secrets
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address
from typing import Final, Literal
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec
import structlog

from ousel.kernel.errors import InvalidField, Refusal
from ousel.kernel.settings import Settings
from ousel.web.bodies import whole_body
from ousel.web.callers import People
from ousel.web.pages import Pages
from ousel.web.refusals import FormNotTrusted, InternalError, NotFound, UnsupportedMediaType
from ousel.web.requests import Request
from ousel.web.routes import Answer, Headers, RawHeader
from ousel.web.visits import PageRoute, Visit

ADDRESS_CHARACTERS_MAX: Final = 100
DEVICE_CHARACTERS_MAX: Final = 300
FORM_FIELDS_MAX: Final = 100
VISITOR_SECONDS: Final = 30 * 24 * 3600
NUL: Final = "\0"  # no text of ours has it, and PostgreSQL cannot hold it

_log = structlog.get_logger()


class Site:
    """Serves pages to visitors."""

    def __init__(self, people: People, pages: Pages, settings: Settings) -> None:
        """Serve pages to the people whose sessions `people` knows."""
        self._people = people
        self._pages = pages
        self._origin = origin_of(settings.portal_url)
        self._base_path = settings.base_path
        self._proxies = settings.trusted_proxies
        self.cookies = Cookies(secure=settings.portal_url.startswith("https:"))

    def is_visited_by(self, request: Request) -> bool:
        """Say whether a request that finds nothing comes from a person who reads pages."""
        accept = request.headers.get(b"accept", b"")
        return b"text/html" in accept and not request.path.startswith(f"{self._base_path}/")

    async def answer(
        self, route: PageRoute, path: dict[str, str], request: Request, request_id: str
    ) -> Answer:
        """Serve one page."""
        known = self.cookies.visitor(request.headers)
        visitor = known or secrets.token_urlsafe(24)
        visit = self._stranger(request, visitor, request_id)
        try:
            visit = await self._known(visit, path)
            if not route.reads_query_itself:
                visit = _with_query(visit, request)
            if route.method == "POST":
                visit = msgspec.structs.replace(visit, form=_form(request))
                self._check_form(visit)
            if visit.person is None and not route.for_everyone:
                answer = see_other(f"/login?next={quote(self._asked_from(visit), safe='')}")
            else:
                answer = await route.handle(visit)
        except Refusal as refusal:
            answer = self._refused(refusal, visit)
        except Exception:  # noqa: BLE001 - the last stop: whatever it is, the visitor is answered
            _log.exception("internal error", request_id=request_id, path=request.path)
            answer = self._told(InternalError("Something failed on our side."), visit)
        if known is None:
            remembered = self.cookies.remember_visitor(visitor)
            answer = msgspec.structs.replace(answer, headers=(*answer.headers, remembered))
        return answer

    async def problem(self, refusal: Refusal, request: Request, request_id: str) -> Answer:
        """Return the page that tells a refusal which happened before any route was found."""
        visit = self._stranger(request, "", request_id)
        with contextlib.suppress(Refusal):  # the page can be told to a stranger as well
            visit = _with_query(await self._known(visit, {}), request)
        return self._told(refusal, visit)

    def _stranger(self, request: Request, visitor: str, request_id: str) -> Visit:
        """Return the visit as it is before anything of it was looked up or understood."""
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
            form_token=form_token(self.cookies.session(headers) or visitor),
            address=self._address_of(request)[:ADDRESS_CHARACTERS_MAX],
            device=headers.get(b"user-agent", b"").decode("latin-1")[:DEVICE_CHARACTERS_MAX],
            request_id=request_id,
        )

    def _address_of(self, request: Request) -> str:
        """Return the visitor's address: the client's, or what trusted proxies say before it."""
        address = _plain(request.address)
        hops = request.headers.get(b"x-forwarded-for", b"").decode("latin-1").split(",")
        while hops[-1] and self._is_proxy(address):
            address = _plain(hops.pop().strip())
            hops = hops or [""]
        return address

    def _is_proxy(self, address: str) -> bool:
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._proxies)

    async def _known(self, visit: Visit, path: dict[str, str]) -> Visit:
        """Return the visit with who makes it and the parts of its path."""
        session = self.cookies.session(visit.headers)
        if session is not None:
            visit = msgspec.structs.replace(visit, person=await self._people.person(session))
        if any(NUL in value for value in path.values()):
            raise NotFound("There is nothing at this path.")
        return msgspec.structs.replace(visit, path=path)

    def _refused(self, refusal: Refusal, visit: Visit) -> Answer:
        if refusal.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            cause = repr(refusal.__cause__ or refusal)
            _log.error("unavailable", request_id=visit.request_id, code=refusal.code, cause=cause)
        return self._told(refusal, visit)

    def _told(self, refusal: Refusal, visit: Visit) -> Answer:
        again = self._sent_from(visit) if isinstance(refusal, FormNotTrusted) else None
        return msgspec.structs.replace(
            self._pages.problem(refusal, visit, again=again), code=refusal.code
        )

    def _check_form(self, visit: Visit) -> None:
        origin = visit.headers.get(b"origin")
        if origin is not None and origin.decode("latin-1") not in self._own_origins(visit):
            raise FormNotTrusted("This form was sent from another site.")
        given = visit.form.get("form_token", "")
        if not hmac.compare_digest(given.encode(), visit.form_token.encode()):
            raise FormNotTrusted(
                "It is out of date: someone signed in or out here meanwhile, or the browser keeps "
                "no cookies. Nothing was changed. Open the page again and send the form anew."
            )

    def _own_origins(self, visit: Visit) -> set[str]:
        """Return the site's origin, and the one by which the visitor reached it."""
        host = visit.headers.get(b"host", b"").decode("latin-1")
        return {self._origin, f"{urlsplit(self._origin).scheme}://{host}"}

    def _asked_from(self, visit: Visit) -> str:
        """Return the page to come back to: this one, or the one whose form was sent."""
        if visit.method != "POST":
            return visit.url
        return (self._sent_from(visit) or "/").partition("?")[0]

    def _sent_from(self, visit: Visit) -> str | None:
        """Return the page of this site whose form was sent, if the browser tells it."""
        referrer = visit.headers.get(b"referer", b"").decode("latin-1")
        for origin in self._own_origins(visit):
            if referrer.startswith(f"{origin}/"):
                return local_path(referrer.removeprefix(origin), "/")
        return None


class Cookies:
    """The two cookies: who is signed in, and, before that, which visitor a form belongs to."""

    def __init__(self, *, secure: bool) -> None:
        """Use the strictest form of cookie that the site's scheme allows."""
        prefix = "__Host-" if secure else ""
        self._session_name = f"{prefix}ousel_session"
        self._visitor_name = f"{prefix}ousel_visitor"
        self._attributes = "; Path=/; HttpOnly; SameSite=Lax" + ("; Secure" if secure else "")

    def session(self, headers: Headers) -> str | None:
        """Return the session's secret that the browser sent."""
        return _cookie(headers, self._session_name)

    def visitor(self, headers: Headers) -> str | None:
        """Return the visitor's random name that the browser sent."""
        return _cookie(headers, self._visitor_name)

    def sign_in(self, secret: str, seconds: int) -> RawHeader:
        """Return the header that makes the browser keep a session's secret."""
        return self._set(self._session_name, secret, seconds)

    def sign_out(self) -> RawHeader:
        """Return the header that makes the browser forget the session."""
        return self._set(self._session_name, "", 0)

    def remember_visitor(self, visitor: str) -> RawHeader:
        """Return the header that makes the browser keep the visitor's name."""
        return self._set(self._visitor_name, visitor, VISITOR_SECONDS)

    def _set(self, name: str, value: str, seconds: int) -> RawHeader:
        return (b"set-cookie", f"{name}={value}; Max-Age={seconds}{self._attributes}".encode())


def _plain(address: str) -> str:
    """Return an IPv4 address as such, also where it came in on a socket for IPv6 and IPv4."""
    try:
        mapped = IPv6Address(address).ipv4_mapped
    except ValueError:
        return address
    return address if mapped is None else str(mapped)


def form_token(cookie: str) -> str:
    """Return the token that forms carry for the visitor with this cookie."""
    return hashlib.sha256(f"form:{cookie}".encode()).hexdigest()


def see_other(location: str, *headers: RawHeader) -> Answer:
    """Return the answer that sends a browser on with GET."""
    return Answer(
        HTTPStatus.SEE_OTHER,
        b"",
        content_type=b"text/plain",
        headers=((b"location", location.encode("ascii", "strict")), *headers),
    )


def local_path(target: str, default: str) -> str:
    """Return the target if it is a path on this site, else the default."""
    safe = target.startswith("/") and not target.startswith(("//", "/\\"))
    if not safe or not target.isascii() or not target.isprintable() or "\\" in target:
        return default
    return target


def origin_of(url: str) -> str:
    """Return scheme, host and port of an address."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _with_query(visit: Visit, request: Request) -> Visit:
    return msgspec.structs.replace(visit, query=_pairs(request.query, "replace"))


def _form(request: Request) -> dict[str, str]:
    content_type = request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if content_type != b"application/x-www-form-urlencoded":
        raise UnsupportedMediaType("A form is sent as application/x-www-form-urlencoded.")
    return _pairs(whole_body(request), "strict")


def _pairs(encoded: bytes, errors: Literal["strict", "replace"]) -> dict[str, str]:
    """Return the fields of a form or a query, or refuse what no browser sends from our pages."""
    try:
        pairs = parse_qsl(
            encoded.decode("ascii", errors),
            keep_blank_values=True,
            errors=errors,
            max_num_fields=FORM_FIELDS_MAX,
        )
    except ValueError as error:
        raise InvalidField("What was sent cannot be read.", param="form") from error
    for name, value in pairs:
        if NUL in name or NUL in value:
            raise InvalidField("A text must not contain the character NUL.", param=name[:100])
    return dict(pairs)


def _cookie(headers: Headers, name: str) -> str | None:
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        found, _, value = part.strip().partition("=")
        if found == name and value:
            return value
    return None
