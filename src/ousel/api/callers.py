"""Callers of the API, and the interfaces that look up their keys and tokens."""

from typing import Protocol

import msgspec


class Partner(msgspec.Struct, frozen=True, gc=False):
    """A partner's app, identified by its key."""

    account_id: str
    client_id: str
    app_name: str
    handle: str

    @property
    def app_account_id(self) -> str:
        """The id of the partner's own account, which owns the app."""
        return self.account_id


class User(msgspec.Struct, frozen=True, gc=False):
    """A person whose account an app may read, identified by the app's user token."""

    account_id: str
    app_account_id: str
    client_id: str
    scopes: frozenset[str]
    handle: str


class PartnerKeys(Protocol):
    """Looks up partner keys and registered origins."""

    async def partner(self, secret: str) -> Partner:
        """Return the partner that owns this key, or raise Unauthorized."""
        ...

    def cached_partner(self, secret: str) -> Partner | None:
        """Return the cached owner of this key, which may have been revoked since, or None."""
        ...

    async def is_origin_of_app(self, caller: Partner | User, origin: str) -> bool:
        """Return whether the caller's app has registered the origin."""
        ...

    async def is_origin_of_any_app(self, origin: str) -> bool:
        """Return whether any app has registered the origin."""
        ...


class UserTokens(Protocol):
    """Looks up user tokens."""

    async def user(self, secret: str) -> User:
        """Return the user that this token belongs to, or raise InvalidToken."""
        ...
