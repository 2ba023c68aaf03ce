"""What goes over the wire and comes back, as plain values: no input or output happens here.

A call is a generator of steps. It yields each attempt that shall be made, receives what came of
it, and returns the call's result. A driver makes the attempts, waiting or awaiting.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar
from urllib.parse import quote

from ousel_client.credentials import Secret

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, the same to the byte at each attempt."""

    method: Literal["GET", "POST"]
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)
    credential: Secret | None = None
    held_seconds: int = 0  # how long the server may hold its answer
    repeatable: bool = True  # whether a second one does no harm where the first had its effect


@dataclass(frozen=True, slots=True)
class Attempt:
    """A request to be made after a delay."""

    request: Request
    delay_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server answered; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Failure:
    """No answer came; `sent` says whether the server may have the request nevertheless."""

    error: Exception
    sent: bool


Outcome: TypeAlias = Answer | Failure
Steps: TypeAlias = Generator[Attempt, Outcome, Result]


def segment(text: str) -> str:
    """Return the text as one segment of a path."""
    if text in {"", ".", ".."}:
        raise ValueError(f"{text!r} names nothing.")
    return quote(text, safe="")
