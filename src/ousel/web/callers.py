"""Who calls: the partner behind a key, and the port by which the web asks for it."""

from typing import Protocol

import msgspec


class Partner(msgspec.Struct, frozen=True, gc=False):
    """A partner application, known by its key."""

    account_id: str
    client_id: str
    app_name: str
    key_handle: str


class Callers(Protocol):
    """Knows the callers; the composition root passes the one who does."""

    async def partner(self, secret: str) -> Partner:
        """Return the partner whose key this is, or raise Unauthorized."""
        ...

    async def origin_allowed(self, partner: Partner, origin: str) -> bool:
        """Say whether the origin is registered on the partner's app."""
        ...

    async def origin_known(self, origin: str) -> bool:
        """Say whether any app has registered the origin."""
        ...
