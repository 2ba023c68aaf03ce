"""Requests as a connection passes them on, and the answers and responses that go back."""

from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Any, Final, Protocol

import msgspec

from ousel.http.refusals import BodyTooLarge
from ousel.kernel.errors import Refusal

BODY_BYTES_MAX: Final = 64 * 1024

Headers = Mapping[bytes, bytes]
RawHeader = tuple[bytes, bytes]

_STATUSES_WITHOUT_CONTENT: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


class Request(msgspec.Struct, gc=False, kw_only=True):
    """A complete request; the server adds the route and the caller once it knows them."""

    method: str
    path: str  # as sent, with its escapes
    query: bytes
    headers: Headers
    body: bytes | None  # None if it has more than BODY_BYTES_MAX
    ip_address: str  # of the other end of the connection, which may be a proxy: see PageServer
    is_last: bool = False  # the connection is closed after the answer
    # Why the request could not be read; the other fields are then empty.
    refusal: Refusal | None = None
    # In the event loop's time; set for the first request of a connection, for a request behind
    # another one, and for one that was read late.
    arrived_at: float | None = None
    accepts_chunks: bool = True  # if not, a stream ends when the connection is closed
    route: Any = None  # for the observers
    caller: Any = None  # for the observers


class AnswerDropped(Exception):
    """The connection is to be closed without an answer."""


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A status, a body, and the headers that are specific to this answer."""

    status: int
    body: bytes
    content_type: bytes = b"application/json"
    headers: tuple[RawHeader, ...] = ()
    stream: AsyncIterator[bytes] | None = None  # sent after the body, piece by piece
    code: str | None = None  # of the refusal, for the observers


class Response(msgspec.Struct, frozen=True, gc=False):
    """An answer as bytes, without the header lines that the connection adds."""

    status: int
    head: bytes
    body: bytes
    stream: AsyncIterator[bytes] | None = None  # sent after the body, piece by piece


class Responder(Protocol):
    """Answers requests, including those that could not be read."""

    async def respond(self, request: Request) -> Response:
        """Return the response to a request."""
        ...

    def give_up(self, request: Request) -> None:
        """Note that the client has hung up before its request was begun."""
        ...


def header_lines(*headers: RawHeader) -> bytes:
    """Return the headers as lines; raise ValueError if one contains a line break."""
    rendered = b"".join([b"%b: %b\r\n" % header for header in headers])
    if not rendered.count(b"\n") == rendered.count(b"\r") == len(headers):
        names = b", ".join([name for name, _ in headers])
        raise ValueError(f"a header contains a line break: one of {names.decode()}")
    return rendered


def answer_head(answer: Answer) -> bytes:
    """Return the header lines that describe the body, and the answer's own headers."""
    own = header_lines(*answer.headers) if answer.headers else b""
    if answer.status in _STATUSES_WITHOUT_CONTENT:
        return own
    if answer.stream is not None:
        return b"content-type: %b\r\n%b" % (answer.content_type, own)
    length = len(answer.body)
    return b"content-type: %b\r\ncontent-length: %d\r\n%b" % (answer.content_type, length, own)


_encoder = msgspec.json.Encoder()


def json_answer(record: Any, status: int = 200, headers: tuple[RawHeader, ...] = ()) -> Answer:
    """Return the record as a JSON answer."""
    return Answer(status, _encoder.encode(record), headers=headers)


def retry_after_header(refusal: Refusal) -> tuple[RawHeader, ...]:
    """Return the header that says when to try again; none if the refusal does not say when."""
    seconds = refusal.retry_after_seconds
    return () if seconds is None else ((b"retry-after", b"%d" % seconds),)


def whole_body(request: Request) -> bytes:
    """Return the body, or refuse one that is too large."""
    if request.body is None:
        raise BodyTooLarge(f"The body must be at most {BODY_BYTES_MAX} bytes.")
    return request.body
