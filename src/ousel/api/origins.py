"""Origins: which web pages may call the API, and the CORS headers that allow them to."""

from typing import Final

from ousel.api.callers import Partner, PartnerKeys, User
from ousel.api.refusals import OriginNotAllowed
from ousel.http.messages import Answer, Headers, RawHeader

PREFLIGHT_SECONDS: Final = 600

_EXPOSED_HEADERS: Final = (
    b"ETag, Idempotent-Replayed, Preference-Applied, RateLimit, RateLimit-Policy, Retry-After,"
    b" Traceresponse, X-Request-Id"
)
_ALLOWED_HEADERS: Final = (
    b"Authorization, Content-Type, Idempotency-Key, If-None-Match, Ousel-Rehearse, Prefer,"
    b" Traceparent, Tracestate"
)


class OriginPolicy:
    """Allows the origins that the caller's app has registered."""

    def __init__(self, partner_keys: PartnerKeys) -> None:
        """Look up registered origins with `partner_keys`."""
        self._partner_keys = partner_keys

    async def check_origin(self, caller: Partner | User, origin: bytes) -> tuple[RawHeader, ...]:
        """Return the CORS headers for an origin of the caller's app, or refuse any other origin."""
        if not await self._partner_keys.is_origin_of_app(caller, origin.decode("latin-1")):
            raise OriginNotAllowed("This origin is not registered for the app that calls.")
        return _cors_headers(origin)

    async def public_headers(self, headers: Headers) -> tuple[RawHeader, ...]:
        """Return CORS headers for an unknown caller, if any app has registered the origin."""
        origin = headers.get(b"origin")
        if origin is None or not await self._partner_keys.is_origin_of_any_app(
            origin.decode("latin-1")
        ):
            return ()
        return _cors_headers(origin)

    async def preflight(self, headers: Headers) -> Answer:
        """Answer a browser's preflight request."""
        origin = headers.get(b"origin", b"")
        if not await self._partner_keys.is_origin_of_any_app(origin.decode("latin-1")):
            raise OriginNotAllowed("No app has registered this origin.")
        return Answer(
            204,
            b"",
            headers=(
                *_allow_origin(origin),
                (b"access-control-allow-methods", b"GET, POST"),
                (b"access-control-allow-headers", _ALLOWED_HEADERS),
                (b"access-control-max-age", b"%d" % PREFLIGHT_SECONDS),
            ),
        )


def _cors_headers(origin: bytes) -> tuple[RawHeader, ...]:
    return (*_allow_origin(origin), (b"access-control-expose-headers", _EXPOSED_HEADERS))


def _allow_origin(origin: bytes) -> tuple[RawHeader, ...]:
    return ((b"access-control-allow-origin", origin), (b"vary", b"Origin"))
