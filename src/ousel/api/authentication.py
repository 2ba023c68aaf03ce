"""Authentication: who calls the API, from which origin, and how often."""

from http import HTTPStatus

from ousel.api.callers import Partner, PartnerKeys, User, UserTokens
from ousel.api.origins import OriginPolicy
from ousel.api.rate_limits import RateLimiter
from ousel.api.refusals import InsufficientScope, InvalidToken, OriginNotAllowed, Unauthorized
from ousel.api.route import Route
from ousel.http.messages import Answer, Headers, RawHeader
from ousel.kernel.errors import Refusal
from ousel.kernel.settings import Settings


class ApiAuthenticator:
    """Authenticates callers by their credentials and enforces their limits."""

    def __init__(
        self, partner_keys: PartnerKeys, user_tokens: UserTokens, settings: Settings
    ) -> None:
        """Look up keys with `partner_keys`, and user tokens with `user_tokens`."""
        self._partner_keys = partner_keys
        self._user_tokens = user_tokens
        self._origins = OriginPolicy(partner_keys)
        self._limiter = RateLimiter(settings.rate_limit) if settings.rate_limit else None

    async def preflight(self, headers: Headers) -> Answer:
        """Answer a browser that asks whether pages of an origin may call the API."""
        return await self._origins.preflight(headers)

    async def cors_headers(self, headers: Headers) -> tuple[RawHeader, ...]:
        """Return the CORS headers that let pages of any registered origin read an answer."""
        return await self._origins.public_headers(headers)

    def cached_caller(self, route: Route, headers: Headers) -> Partner | None:
        """Return the cached caller if the route's transaction checks the key again, else None."""
        secret = _bearer_secret(headers) if route.checks_key_in_transaction else None
        return None if secret is None else self._partner_keys.cached_partner(secret)

    async def authenticate(
        self, route: Route, headers: Headers, extra_headers: list[RawHeader]
    ) -> Partner | User | None:
        """Return the caller, or None if the route is public or its endpoint authenticates callers.

        If the credential is not valid, `extra_headers` gets the CORS headers that let a page read
        the answer.
        """
        if route.access in {"public", "client"}:
            return None
        secret = _bearer_secret(headers)
        try:
            if route.access == "user":
                return await self._user(secret)
            return await self._partner(secret)
        except (Unauthorized, InvalidToken):
            extra_headers.extend(await self._origins.public_headers(headers))
            raise

    async def check_origin(
        self, caller: Partner | User, origin: bytes, extra_headers: list[RawHeader]
    ) -> None:
        """Refuse an origin that the caller's app has not registered; add the CORS headers."""
        try:
            extra_headers.extend(await self._origins.check_origin(caller, origin))
        except OriginNotAllowed:
            self._enforce_rate(caller, extra_headers)
            raise

    def enforce_limits(
        self, caller: Partner | User, route: Route, extra_headers: list[RawHeader]
    ) -> None:
        """Check rate limit and scope; add headers that describe the limits."""
        self._enforce_rate(caller, extra_headers)
        if isinstance(caller, User) and route.scope not in caller.scopes:
            raise InsufficientScope(route.scope)

    async def recheck_key(
        self, route: Route, headers: Headers, refusal: Refusal, extra_headers: list[RawHeader]
    ) -> None:
        """Look the key up after a refusal, because the transaction may not have checked it.

        If the key was revoked, the answer is 401 and reveals nothing else.
        """
        if (
            not route.checks_key_in_transaction
            or refusal.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        ):
            return
        headers_before = extra_headers.copy()
        extra_headers.clear()
        await self.authenticate(route, headers, extra_headers)
        extra_headers.extend(headers_before)

    def _enforce_rate(self, caller: Partner | User, extra_headers: list[RawHeader]) -> None:
        if self._limiter is None:
            return
        key = (caller.app_account_id, caller.handle)  # two accounts may have the same handle
        try:
            self._limiter.take(key)
        finally:
            extra_headers.extend(self._limiter.headers(key))

    async def _user(self, secret: str | None) -> User:
        if secret is None:
            raise InvalidToken(sent=False)
        return await self._user_tokens.user(secret)

    async def _partner(self, secret: str | None) -> Partner:
        if secret is None:
            raise Unauthorized
        return await self._partner_keys.partner(secret)


def _bearer_secret(headers: Headers) -> str | None:
    scheme, space, secret = headers.get(b"authorization", b"").partition(b" ")
    return secret.decode("latin-1") if space and scheme.lower() == b"bearer" else None
