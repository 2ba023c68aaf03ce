"""Docs keys: partner keys that people issue on the pages of a sandbox's API reference."""

from typing import Protocol

import msgspec

from ousel.site.visits import Visit


class DocsKey(msgspec.Struct, frozen=True):
    """A docs key with its secret, which only the session that issued it gets to see."""

    secret: str
    client_id: str
    app_name: str
    ends_at: int


class DocsKeys(Protocol):
    """Finds and issues the docs keys of the people who are signed in."""

    async def find(self, visit: Visit) -> DocsKey | None:
        """Return the valid docs key that this session issued last, if there is one."""
        ...

    async def apps(self, visit: Visit) -> dict[str, str]:
        """Return the names of the person's apps by their client ids."""
        ...

    async def issue(self, visit: Visit, client_id: str) -> None:
        """Issue a docs key to the person's own app."""
        ...
