"""One request and its answer, as an ASGI application receives and sends them.

The head of an answer waits for the first of its body, so that most answers are one write.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any, Final, Protocol

import structlog

Message = MutableMapping[str, Any]
Application = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]
RawHeader = tuple[bytes, bytes]

_STATUS_LINES: Final = {
    status: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus
}
_WITHOUT_BODY: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
_FAILED: Final = {
    "type": "http.response.start",
    "status": HTTPStatus.INTERNAL_SERVER_ERROR,
    "headers": [(b"content-length", b"0")],
}

_log = structlog.get_logger()


class Wire(Protocol):
    """What an exchange needs of the connection that it takes place on."""

    @property
    def common_headers(self) -> list[RawHeader]:
        """The headers that the server itself gives every answer."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether the client is slow to take what was sent."""
        ...

    def write(self, data: bytes) -> None:
        """Send to the client."""
        ...

    async def drained(self) -> None:
        """Wait until the client has taken enough of what was sent."""
        ...

    def read_on(self) -> None:
        """Go on reading the body, in case that has been paused."""
        ...

    def end(self, exchange: "Exchange") -> None:
        """Go on to the next request, or close the connection."""
        ...


class Exchange:
    """A request that arrives bit by bit, and an answer that goes out the same way."""

    def __init__(
        self, wire: Wire, scope: Message, *, keep_alive: bool, continue_expected: bool
    ) -> None:
        """Begin with the head of the request, which is in the scope."""
        self._wire = wire
        self._scope = scope
        self._continue_expected = continue_expected
        self._body = b""
        self._whole = False
        self._arrival: asyncio.Future[None] | None = None
        self._head = b""
        self._started = False
        self._chunked = False
        self._over = False
        self.keep_alive = keep_alive

    async def run(self, application: Application) -> None:
        """Let the application answer; should it fail to, say so and close the connection."""
        try:
            await application(self._scope, self.receive, self.send)
        except Exception:  # noqa: BLE001 - whatever it is, the client is told
            _log.exception("the application failed", path=self._scope["path"])
        if not self._over:
            self.keep_alive = False
            if not self._started:
                await self.send(_FAILED)
            await self.send({"type": "http.response.body"})

    @property
    def is_owed(self) -> bool:
        """Whether the client still owes a part of the request, and nothing is answered yet."""
        return not (self._whole or self._started or self._over)

    def take(self, body: bytes) -> int:
        """Take a piece of the body; return how much waits for the application to receive it."""
        if self._over:
            return 0
        self._body += body
        self._wake()
        return len(self._body)

    def complete(self) -> None:
        """Know that the request is whole."""
        self._whole = True
        self._wake()

    def abandon(self) -> None:
        """Know that the client is gone."""
        self._over = True
        self._wake()

    async def receive(self) -> Message:
        """Return what has arrived of the body, or that there is nobody to answer any more."""
        if self._continue_expected and not self._over:
            self._continue_expected = False
            self._wire.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._wire.read_on()
        while not (self._body or self._whole or self._over):
            self._arrival = asyncio.get_running_loop().create_future()
            await self._arrival
        if self._over:
            return {"type": "http.disconnect"}
        body, self._body = self._body, b""
        return {"type": "http.request", "body": body, "more_body": not self._whole}

    async def send(self, message: Message) -> None:
        """Send the head of the answer, or a piece of its body."""
        if self._wire.is_full:
            await self._wire.drained()
        if self._over:
            return
        if message["type"] == "http.response.start":
            self._start(message["status"], message["headers"])
            return
        self._wire.write(self._head + self._framed(message))
        self._head = b""
        if not message.get("more_body", False):
            self._over = True
            self._wire.end(self)

    def _start(self, status: int, headers: list[RawHeader]) -> None:
        lines = [b"%b: %b\r\n" % header for header in self._wire.common_headers + headers]
        if not self.keep_alive:
            lines.append(b"connection: close\r\n")
        if status not in _WITHOUT_BODY and b"content-length" not in dict(headers):
            self._chunked = True
            lines.append(b"transfer-encoding: chunked\r\n")
        head = b"".join(lines)
        if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines):
            raise ValueError("a header of the answer holds a line break")
        self._head = _STATUS_LINES[HTTPStatus(status)] + head + b"\r\n"
        self._started = True

    def _framed(self, message: Message) -> bytes:
        body: bytes = message.get("body", b"")
        if self._scope["method"] == "HEAD":
            return b""
        if not self._chunked:
            return body
        chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
        return chunk if message.get("more_body", False) else chunk + b"0\r\n\r\n"

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
