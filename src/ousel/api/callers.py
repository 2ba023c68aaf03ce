"""Who calls: behind a key, a user token or a session; and the ports to ask by."""

from typing import Protocol

import msgspec


class Partner(msgspec.Struct, frozen=True, gc=False):
    """A partner application, known by its key."""

    account_id: str
    client_id: str
    app_name: str
    handle: str

    @property
    def app_account_id(self) -> str:
        """The account that the app belongs to: the partner's own."""
        return self.account_id


class User(msgspec.Struct, frozen=True, gc=False):
    """A person whose account an app may read, known by the app's user token."""

    account_id: str
    app_account_id: str
    client_id: str
    scopes: frozenset[str]
    handle: str


class PartnerKeys(Protocol):
    """Knows the partners; the composition root passes the one who does."""

    async def partner(self, secret: str) -> Partner:
        """Return the partner whose key this is, or raise Unauthorized."""
        ...

    def remembered_partner(self, secret: str) -> Partner | None:
        """Return whose key this was when it was last looked up; it may have ended since."""
        ...

    async def is_origin_of_app(self, caller: Partner | User, origin: str) -> bool:
        """Say whether the origin is registered on the caller's app."""
        ...

    async def is_origin_of_any_app(self, origin: str) -> bool:
        """Say whether any app has registered the origin."""
        ...


class UserTokens(Protocol):
    """Knows the user tokens; the composition root passes the one who does."""

    async def user(self, secret: str) -> User:
        """Return the user whose token this is, or raise InvalidToken."""
        ...
