"""A request, whole, as a connection hands it to whoever answers; and the response it gets."""

from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Any, Final, Protocol

import msgspec

from ousel.http.refusals import BodyTooLarge
from ousel.kernel.errors import Refusal

BODY_BYTES_MAX: Final = 64 * 1024

Headers = Mapping[bytes, bytes]
RawHeader = tuple[bytes, bytes]

_WITHOUT_CONTENT: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


class Request(msgspec.Struct, gc=False, kw_only=True):
    """A request as it was sent; who answers it notes what it asks for, and who calls."""

    method: str
    path: str  # as sent: what is escaped in it is escaped still
    query: bytes
    headers: Headers
    body: bytes | None  # none of it where it has more than BODY_BYTES_MAX
    address: str  # of the client
    is_last: bool = False  # the client wants the connection closed
    refusal: Refusal | None = None  # where it could not be read; then nothing else is known of it
    takes_chunks: bool = True  # else the end of the connection is the end of a stream
    route: Any = None  # the router sets it and the caller, for whoever observes requests
    caller: Any = None


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What goes back: a status, a body, and headers beyond those that every answer has."""

    status: int
    body: bytes
    content_type: bytes = b"application/json"
    headers: tuple[RawHeader, ...] = ()
    stream: AsyncIterator[bytes] | None = None  # goes out after the body, piece by piece
    code: str | None = None  # of the refusal that it tells, for those who watch


class Response(msgspec.Struct, frozen=True, gc=False):
    """What goes back, ready for the wire but for the lines that are the connection's own."""

    status: int
    head: bytes
    body: bytes
    stream: AsyncIterator[bytes] | None = None  # goes out after the body, piece by piece


class Responder(Protocol):
    """Answers requests, and tells those who sent none that could be read."""

    async def respond(self, request: Request) -> Response:
        """Return the response to a request, or to what arrived in its place."""
        ...


def header_lines(*headers: RawHeader) -> bytes:
    """Return headers as they stand in a response; one with a line break would be two."""
    rendered = b"".join([b"%b: %b\r\n" % header for header in headers])
    if not rendered.count(b"\n") == rendered.count(b"\r") == len(headers):
        names = b", ".join([name for name, _ in headers])
        raise ValueError(f"a header holds a line break: one of {names.decode()}")
    return rendered


def answer_head(answer: Answer) -> bytes:
    """Return the lines that tell what the answer holds, and those that it asks for itself."""
    own = header_lines(*answer.headers) if answer.headers else b""
    if answer.status in _WITHOUT_CONTENT:
        return own
    if answer.stream is not None:
        return b"content-type: %b\r\n%b" % (answer.content_type, own)
    length = len(answer.body)
    return b"content-type: %b\r\ncontent-length: %d\r\n%b" % (answer.content_type, length, own)


_encoder = msgspec.json.Encoder()


def json_answer(record: Any, status: int = 200, headers: tuple[RawHeader, ...] = ()) -> Answer:
    """Return the record as a JSON answer."""
    return Answer(status, _encoder.encode(record), headers=headers)


def whole_body(request: Request) -> bytes:
    """Return the body, or refuse one that is too large."""
    if request.body is None:
        raise BodyTooLarge(f"The body must be at most {BODY_BYTES_MAX} bytes.")
    return request.body
