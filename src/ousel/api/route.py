"""Routes, from which requests are served and the OpenAPI document is generated."""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, Literal, TypeVar

import msgspec

from ousel.api.callers import Partner, User
from ousel.http.messages import Answer, Headers, RawHeader
from ousel.kernel.errors import Refusal

# With "client", the OAuth endpoint itself authenticates the app.
Access = Literal["public", "client", "partner", "user"]


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No query parameters."""


class NoBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No body, or an object without fields; a GET ignores its body."""


Body = TypeVar("Body")
Query = TypeVar("Query")


class Call(msgspec.Struct, Generic[Body, Query], gc=False, kw_only=True):
    """A request as an endpoint gets it: authenticated and decoded."""

    path: dict[str, str]
    query: Query
    body: Body
    headers: Headers
    extra_headers: list[RawHeader]  # headers that are added to the answer, even to a refusal
    request_id: str
    caller: Partner | User | None

    @property
    def partner(self) -> Partner:
        """The partner that calls, on a route for partners."""
        assert isinstance(self.caller, Partner)
        return self.caller

    @property
    def user(self) -> User:
        """The user whose token was sent, on a route for users."""
        assert isinstance(self.caller, User)
        return self.caller


class AnswerDescription(msgspec.Struct, frozen=True):
    """The description of an answer: what it means and which record it contains, if any."""

    meaning: str
    record: Any
    headers: dict[str, str] = {}  # headers that it always has, each with the pattern of its value
    has_text_form: bool = False  # with `Accept: text/plain`


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One method on one path: how to serve it, and what the reference says about it."""

    method: Literal["GET", "POST"]
    path: str
    endpoint: Callable[[Call[Any, Any]], Awaitable[Answer]]
    name: str
    summary: str
    description: str = ""
    access: Access = "partner"
    scope: str = ""  # the scope that a user token needs, on a route for users
    checks_key_in_transaction: bool = False  # its transaction checks a cached partner key again
    body: type[msgspec.Struct] = NoBody
    takes_forms: bool = False  # as well as JSON
    query: type[msgspec.Struct] = NoQuery
    path_parameters: dict[str, str] = {}
    request_headers: dict[str, dict[str, Any]] = {}
    successes: dict[int, AnswerDescription] = {}
    refusals: tuple[type[Refusal], ...] = ()
    # For clients that expect errors in another format than problem+json.
    refusal_format: Callable[[Refusal], Answer] | None = None
    failures: dict[int, AnswerDescription] = {}
    in_reference: bool = True
