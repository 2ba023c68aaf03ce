"""Visits: a person's request for a page, and the routes that pages are found by."""

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

import msgspec

from ousel.http.messages import Answer, Headers


class Person(msgspec.Struct, frozen=True):
    """A person who is signed in, known by the session's cookie."""

    account_id: str
    username: str
    display_name: str
    session_hash: str


class Sessions(Protocol):
    """Knows the people who are signed in; the composition root passes the one who does."""

    async def person(self, secret: str) -> Person | None:
        """Return the person whose session this is, if it is still good."""
        ...


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """A visitor's request for a page."""

    method: str
    path: dict[str, str]
    query: dict[str, str]
    form: dict[str, str]
    headers: Headers
    url: str  # path and query, to come back to
    person: Person | None
    form_token: str
    address: str
    device: str
    request_id: str

    @property
    def signed_in(self) -> Person:
        """The person, on a page that only those who are signed in reach."""
        assert self.person is not None
        return self.person


class PageRoute(msgspec.Struct, frozen=True, kw_only=True):
    """One method on one path of the site."""

    method: Literal["GET", "POST"]
    path: str
    handle: Callable[[Visit], Awaitable[Answer]]
    for_everyone: bool = False  # else only for those who are signed in
    reads_query_itself: bool = False  # byte for byte, from the visit's url
