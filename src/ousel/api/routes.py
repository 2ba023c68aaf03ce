"""Routes: one table from which requests are served and the OpenAPI document is written."""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, Literal, TypeVar

import msgspec

from ousel.api.callers import Partner, User
from ousel.http.messages import Answer, Headers, RawHeader
from ousel.kernel.errors import Refusal

Access = Literal["public", "client", "partner", "user"]  # a client of OAuth shows who it is itself


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No query parameters at all."""


class NoBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No body at all, or an object without fields; where something is only read, it is ignored."""


Body = TypeVar("Body")
Query = TypeVar("Query")


class Call(msgspec.Struct, Generic[Body, Query], gc=False, kw_only=True):
    """A request that passed the edge: its caller is known, its body and query are well-formed."""

    path: dict[str, str]
    query: Query
    body: Body
    headers: Headers
    extra: list[RawHeader]  # what the answer has beside its own headers, whatever the outcome
    request_id: str
    caller: Partner | User | None

    @property
    def partner(self) -> Partner:
        """The partner that calls, on a route that only partners reach."""
        assert isinstance(self.caller, Partner)
        return self.caller

    @property
    def user(self) -> User:
        """The user whose token calls, on a route that only user tokens reach."""
        assert isinstance(self.caller, User)
        return self.caller


class Documented(msgspec.Struct, frozen=True):
    """An answer that a route may give: what it means and the record that it carries, if any."""

    meaning: str
    record: Any
    headers: dict[str, str] = {}  # that it always has, each with the pattern of its value


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One method on one path: how to serve it, and what the reference says of it."""

    method: Literal["GET", "POST"]
    path: str
    handle: Callable[[Call[Any, Any]], Awaitable[Answer]]
    name: str
    summary: str
    description: str = ""
    access: Access = "partner"
    scope: str = ""  # what a user token must hold, on a route for users
    checks_key_in_transaction: bool = (
        False  # a partner's key is looked at again by what it is used for
    )
    body: type[msgspec.Struct] = NoBody
    takes_forms: bool = False  # form encoding as well as JSON
    query: type[msgspec.Struct] = NoQuery
    path_parameters: dict[str, str] = {}
    request_headers: dict[str, dict[str, Any]] = {}
    successes: dict[int, Documented] = {}
    refusals: tuple[type[Refusal], ...] = ()
    # A route whose clients read errors in another form than a problem gives it, and says so.
    refusal_format: Callable[[Refusal], Answer] | None = None
    failures: dict[int, Documented] = {}
    in_reference: bool = True
