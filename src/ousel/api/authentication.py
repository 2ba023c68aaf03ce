"""The gate of the interface: who calls, from where, and not too often."""

from http import HTTPStatus

from ousel.api.callers import Partner, PartnerKeys, User, UserTokens
from ousel.api.origins import OriginPolicy
from ousel.api.rate_limits import RateLimiter
from ousel.api.refusals import InsufficientScope, InvalidToken, Unauthorized
from ousel.api.routes import Route
from ousel.http.messages import Answer, Headers, RawHeader
from ousel.kernel.errors import Refusal
from ousel.kernel.settings import Settings


class ApiAuthenticator:
    """Knows callers by their credentials and keeps their limits."""

    def __init__(
        self, partner_keys: PartnerKeys, user_tokens: UserTokens, settings: Settings
    ) -> None:
        """Ask these about keys and user tokens."""
        self._partner_keys = partner_keys
        self._user_tokens = user_tokens
        self._origins = OriginPolicy(partner_keys)
        self._limiter = RateLimiter(settings.rate_limit) if settings.rate_limit else None

    async def preflight(self, headers: Headers) -> Answer:
        """Answer a browser that asks, before it calls, whether an origin may."""
        return await self._origins.preflight(headers)

    async def cors_headers(self, headers: Headers) -> tuple[RawHeader, ...]:
        """Return the CORS headers of an answer that concerns no app: any app's pages read it."""
        return await self._origins.public_headers(headers)

    def remembered_caller(self, route: Route, headers: Headers) -> Partner | None:
        """Return who calls as far as it is remembered, where that is enough to begin.

        A key that is looked at again, in the same transaction that uses it, need not be now.
        """
        secret = _bearer_secret(headers) if route.checks_key_in_transaction else None
        return None if secret is None else self._partner_keys.remembered_partner(secret)

    async def authenticate(
        self, route: Route, headers: Headers, extra: list[RawHeader]
    ) -> Partner | User | None:
        """Return who calls, on a route whose callers have to show it here.

        Where nobody is known, `extra` lets a page of any app read so.
        """
        if route.access in {"public", "client"}:
            return None
        secret = _bearer_secret(headers)
        try:
            if route.access == "user":
                return await self._user(secret)
            return await self._partner(secret)
        except (Unauthorized, InvalidToken):
            extra.extend(await self._origins.public_headers(headers))
            raise

    async def enforce_limits(
        self, caller: Partner | User, route: Route, headers: Headers, extra: list[RawHeader]
    ) -> None:
        """Keep the limits of the caller's app and credential; `extra` tells them to the caller."""
        if b"origin" in headers:
            extra.extend(await self._origins.check_origin(caller, headers[b"origin"]))
        if self._limiter is not None:
            try:
                self._limiter.take(caller.handle)
            finally:
                extra.extend(self._limiter.headers(caller.handle))
        if isinstance(caller, User) and route.scope not in caller.scopes:
            raise InsufficientScope(route.scope)

    async def recheck_key(
        self, route: Route, headers: Headers, refusal: Refusal, extra: list[RawHeader]
    ) -> None:
        """Look again at a key that nothing was posted by: if it has ended, only that is told."""
        if (
            not route.checks_key_in_transaction
            or refusal.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        ):
            return
        told = extra.copy()
        extra.clear()
        await self.authenticate(route, headers, extra)
        extra.extend(told)

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
