"""Visits, which are requests for pages, and the routes of pages."""

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

import msgspec

from ousel.http.messages import Answer, Headers
from ousel.kernel.errors import IdentityCheckNeeded


class Person(msgspec.Struct, frozen=True):
    """A person who is signed in, identified by the session cookie."""

    account_id: str
    username: str
    display_name: str
    session_hash: str
    is_recently_checked: bool = False  # see IdentityChecks


class Sessions(Protocol):
    """Looks up sessions."""

    async def person(self, secret: str) -> Person | None:
        """Return the person that this session belongs to, or None if it is not valid."""
        ...


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """A visitor's request for a page."""

    method: str
    path: dict[str, str]
    query: dict[str, str]
    form: dict[str, str]
    headers: Headers
    url: str  # path and query
    person: Person | None
    form_token: str
    visitor: str  # a secret that only this browser has
    ip_address: str
    device: str
    request_id: str

    @property
    def signed_in(self) -> Person:
        """The person, on a page that requires signing in."""
        assert self.person is not None
        return self.person


class IdentityChecks(Protocol):
    """Asks people who are signed in to prove again who they are."""

    async def check(self, visit: Visit) -> Visit:
        """Check the password, code or passkey in a form; return the visit of the checked person.

        A form without them is not checked. Raises IdentityCheckNeeded if they are wrong.
        """
        ...

    async def ask(self, visit: Visit, refusal: IdentityCheckNeeded) -> Answer:
        """Return the page that asks for a password, code or passkey, and then continues."""
        ...


def require_identity_check(visit: Visit, purpose: str) -> None:
    """Raise IdentityCheckNeeded unless the person was checked recently.

    The page of the identity check shows the purpose, such as “send 25.00 OUSD”. A page calls this
    function before it changes anything, because the same request is sent again after the check.
    """
    if not visit.signed_in.is_recently_checked:
        raise IdentityCheckNeeded("This needs your password, a code or a passkey.", purpose=purpose)


def needs_identity_check(visit: Visit, micros: int, over_micros: int | None) -> bool:
    """Return whether the person must be checked before this amount leaves their account."""
    is_checked = visit.person is not None and visit.person.is_recently_checked
    return over_micros is not None and micros > over_micros and not is_checked


class PageRoute(msgspec.Struct, frozen=True, kw_only=True):
    """One method on one path of the site, and the function that answers it."""

    method: Literal["GET", "POST"]
    path: str
    answer: Callable[[Visit], Awaitable[Answer]]
    for_everyone: bool = False  # else visitors must sign in first
    reads_query_itself: bool = False  # from `visit.url`, byte by byte
    may_have_files: bool = False  # in its form
    opens_session: bool = False  # so its form may be sent again when the session is open
