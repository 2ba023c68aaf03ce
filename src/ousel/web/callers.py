"""Who calls: the partner behind a key, the person behind a session, and the ports to ask by."""

from typing import Protocol

import msgspec


class Partner(msgspec.Struct, frozen=True, gc=False):
    """A partner application, known by its key."""

    account_id: str
    client_id: str
    app_name: str
    key_handle: str


class Person(msgspec.Struct, frozen=True):
    """A person who is signed in, known by the session's cookie."""

    account_id: str
    username: str
    display_name: str
    session_hash: str


class Callers(Protocol):
    """Knows the partners; the composition root passes the one who does."""

    async def partner(self, secret: str) -> Partner:
        """Return the partner whose key this is, or raise Unauthorized."""
        ...

    async def origin_allowed(self, partner: Partner, origin: str) -> bool:
        """Say whether the origin is registered on the partner's app."""
        ...

    async def origin_known(self, origin: str) -> bool:
        """Say whether any app has registered the origin."""
        ...


class People(Protocol):
    """Knows the people who are signed in; the composition root passes the one who does."""

    async def person(self, secret: str) -> Person | None:
        """Return the person whose session this is, if it is still good."""
        ...
