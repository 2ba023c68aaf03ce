"""Requests and answers as plain values, without I/O.

A call is a generator. It yields each attempt to send a request, receives the outcome, and returns
the result of the call. A driver carries the attempts out, synchronously or with asyncio.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar
from urllib.parse import quote

from ousel_client.credentials import Secret

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. Every attempt sends the same bytes."""

    method: Literal["GET", "POST"]
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)
    credential: Secret | None = None
    held_seconds: int = 0  # how long the server may delay its answer
    repeatable: bool = True  # whether to send it again if it may have taken effect


@dataclass(frozen=True, slots=True)
class Attempt:
    """A request to send after a delay."""

    request: Request
    delay_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the server. The names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


class ClientClosed(Exception):
    """The client is closed, so that no request can be sent any more."""


@dataclass(frozen=True, slots=True)
class Failure:
    """There was no answer. `sent` says whether the server may have received the request."""

    error: Exception
    sent: bool


Outcome: TypeAlias = Answer | Failure
Steps: TypeAlias = Generator[Attempt, Outcome, Result]


def segment(text: str) -> str:
    """Return the text as one segment of a path."""
    if text in {"", ".", ".."}:
        raise ValueError(f"{text!r} is not an identifier or id.")
    return quote(text, safe="")
