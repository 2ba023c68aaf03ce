"""Visits, which are requests for pages, and the routes of pages."""

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

import msgspec

from ousel.http.messages import Answer, Headers


class Person(msgspec.Struct, frozen=True):
    """A person who is signed in, identified by the session cookie."""

    account_id: str
    username: str
    display_name: str
    session_hash: str


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


class PageRoute(msgspec.Struct, frozen=True, kw_only=True):
    """One method on one path of the site, and the function that answers it."""

    method: Literal["GET", "POST"]
    path: str
    answer: Callable[[Visit], Awaitable[Answer]]
    for_everyone: bool = False  # else visitors must sign in first
    reads_query_itself: bool = False  # from `visit.url`, byte by byte
