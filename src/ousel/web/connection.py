"""A client's connection: requests are parsed from it and answered in their order.

A request is answered once it is whole, so that a slow sender costs nothing but its connection.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

import httptools
import structlog
from typing_extensions import override

from ousel.kernel.errors import Refusal
from ousel.web.refusals import HeadTooLarge, MalformedRequest
from ousel.web.requests import BODY_BYTES_MAX, Request, Responder, Response

if TYPE_CHECKING:
    from uvicorn.server import ServerState

HEAD_BYTES_MAX: Final = 64 * 1024  # of all that is no body, as long as the request arrives
SEGMENT_BYTES_MAX: Final = 256 * 1024  # that an event loop reads at once
REQUESTS_WAITING_MAX: Final = 16
LINGER_SECONDS_MAX: Final = 5.0

_FAILED: Final = Response(HTTPStatus.INTERNAL_SERVER_ERROR, b"content-length: 0\r\n", b"")

_STATUS_LINES: Final[dict[int, bytes]] = {
    status: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus
}

_log = structlog.get_logger()


class Connection(asyncio.Protocol):
    """One connection; requests that a client sends ahead wait for their turn."""

    def __init__(
        self, responder: Responder, server_state: "ServerState", idle_seconds_max: float
    ) -> None:
        """Let the responder answer; the state is that of uvicorn's server."""
        self._responder = responder
        self._server = server_state
        self._idle_seconds_max = idle_seconds_max
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._arriving: Request | None = None  # where its head is here
        self._is_owed = False  # the rest of a request that has begun
        self._head_bytes = 0
        self._is_deaf = False  # to whatever else is sent
        self._waiting: deque[Request] = deque()
        self._answering: asyncio.Task[None] | None = None
        self._is_last = False  # the answer under way, or the next one
        self._reading_paused = False
        self._drain: asyncio.Future[None] | None = None
        self._active_at = self._loop.time()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._server.connections.add(cast("Any", self))
        peer = transport.get_extra_info("peername")
        self._address = str(peer[0]) if isinstance(peer, (list, tuple)) else ""
        self._end_when_idle()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(cast("Any", self))
        self._idle_timer.cancel()
        self.resume_writing()
        self._waiting.clear()
        if self._answering is not None:  # what was begun is ended, though nobody hears of it
            self._server.tasks.add(self._answering)
            self._answering.add_done_callback(self._server.tasks.discard)

    @override
    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        try:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                self._pass_over(offer, memoryview(data))
        except httptools.HttpParserError as error:
            self._refuse(_refusal_of(error))
            return
        if self._is_owed:
            self._count(len(data))
        else:
            self._head_bytes = 0

    @override
    def pause_writing(self) -> None:
        self._drain = self._loop.create_future()
        self._full_at = self._loop.time()

    @override
    def resume_writing(self) -> None:
        if self._drain is not None:
            self._drain.set_result(None)
            self._drain = None

    def shutdown(self) -> None:
        """Close the connection, after the answer under way where there is one.

        A client that does not read its answers is not waited for any longer.
        """
        self._is_last = True
        if self._answering is None:
            self._transport.close()
        self._idle_seconds_max = min(self._idle_seconds_max, LINGER_SECONDS_MAX)
        self._idle_timer.cancel()
        self._end_when_idle()

    def on_message_begin(self) -> None:
        """Expect a request."""
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._arriving = None
        self._is_owed = True
        self._active_at = self._loop.time()

    def on_url(self, url: bytes) -> None:
        """Take a piece of the address."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; one that is sent twice is one list (RFC 9110, section 5.3)."""
        name = name.lower()
        value = value.rstrip()  # the parser leaves out what stands before it
        headers = self._headers
        if name not in headers:
            headers[name] = value
        elif name == b"host":
            raise MalformedRequest("A request names one Host.")
        else:
            headers[name] += b", " + value

    def on_headers_complete(self) -> None:
        """Know what is asked for; a body that is announced too large is not waited for."""
        parser = self._parser
        method = parser.get_method()
        if parser.should_upgrade():
            if method == b"CONNECT":
                raise MalformedRequest("This is no proxy.")
            return  # it is read again as if it offered nothing
        headers = self._headers
        if b"host" not in headers and parser.get_http_version() == "1.1":
            raise MalformedRequest("HTTP/1.1 asks for a Host.")
        path, query = _path_and_query(self._url)
        request = self._arriving = Request(
            method=method.decode("ascii"),
            path=path.decode("ascii"),
            query=query,
            headers=headers,
            body=b"",
            address=self._address,
        )
        if b"content-length" in headers:
            if int(headers[b"content-length"]) > BODY_BYTES_MAX:
                request.body = None
                self._take(request)
                return
        elif b"transfer-encoding" in headers:
            self._headers = {}  # for what follows the last chunk: it is never a header
        if b"expect" in headers and self._answering is None:
            self._invite(request)

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body; of one that is too large nothing more is kept."""
        request = self._arriving
        assert request is not None
        if request.body is None:
            self._head_bytes -= len(body)
        elif len(request.body) + len(body) > BODY_BYTES_MAX:
            self._head_bytes -= len(request.body) + len(body)
            request.body = None
            self._take(request)
        else:
            request.body += body

    def on_message_complete(self) -> None:
        """Take the request, which is whole, unless it was taken before its end."""
        request = self._arriving
        self._is_owed = False
        self._head_bytes = -SEGMENT_BYTES_MAX  # the next may begin in the same segment
        if request is not None and request.body is not None:
            self._take(request)

    def _invite(self, request: Request) -> None:
        """Tell a client that asked before it sends its body to go on, as long as it waits."""
        asks = request.headers.get(b"expect", b"").lower() == b"100-continue"
        if asks and request.body == b"" and self._parser.get_http_version() == "1.1":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _pass_over(self, offer: Exception, data: memoryview) -> None:
        """Read a request again as if it offered no other protocol (RFC 9110, section 7.8).

        The parser takes all that follows such a head, a body too, for the other protocol.
        """
        parser = self._parser
        while True:
            data = data[offer.args[0] :]
            del self._headers[b"upgrade"]
            lines = [b"%b: %b\r\n" % header for header in self._headers.items()]
            version = parser.get_http_version().encode()
            first = b"%b %b HTTP/%b\r\n" % (parser.get_method(), self._url, version)
            parser.feed_data(first + b"".join(lines) + b"\r\n")
            try:
                parser.feed_data(data)
            except httptools.HttpParserUpgrade as another:
                offer = another
            else:
                return

    def _count(self, segment_bytes: int) -> None:
        """Refuse a head that goes on and on, or as much around the chunks of a body."""
        self._head_bytes += segment_bytes
        request = self._arriving
        kept = b"" if request is None else request.body or b""
        if self._head_bytes - len(kept) > HEAD_BYTES_MAX:
            self._refuse(HeadTooLarge(f"A head must be at most {HEAD_BYTES_MAX} bytes."))

    def _take(self, request: Request) -> None:
        """Answer the request, or let it wait for those before it."""
        parser = self._parser
        is_kept = parser.should_keep_alive()
        if not is_kept or b"connection" in request.headers:  # so is every older client's
            request.takes_chunks = parser.get_http_version() == "1.1"
            request.is_last = not (is_kept and request.takes_chunks)
        if self._answering is None:
            self._answer(request)
            return
        self._waiting.append(request)
        if len(self._waiting) >= REQUESTS_WAITING_MAX and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    def _answer(self, request: Request) -> None:
        self._answering = self._loop.create_task(self._respond(request))

    async def _respond(self, request: Request) -> None:
        """Write the response; should the responder itself fail, say so and close the connection."""
        try:
            response = await self._responder.respond(request)
        except Exception:  # noqa: BLE001 - whatever it is, the client is told
            _log.exception("the responder failed", path=request.path)
            request.is_last = True
            response = _FAILED
        self._is_last |= request.is_last
        try:
            await self._send(request, response)
        except Exception:  # noqa: BLE001 - half an answer must not look like a whole one
            _log.exception("an answer broke off", path=request.path)
            self._transport.abort()
        self._go_on()

    async def _send(self, request: Request, response: Response) -> None:
        if self._drain is not None:
            await self._drain
        if self._transport.is_closing():
            return
        parts = [_STATUS_LINES[response.status]]
        parts += [b"%b: %b\r\n" % header for header in self._server.default_headers]
        parts.append(response.head)
        if self._is_last:
            parts.append(b"connection: close\r\n")
        if response.stream is not None and request.takes_chunks:
            parts.append(b"transfer-encoding: chunked\r\n")
        parts.append(b"\r\n")
        if request.method != "HEAD":
            parts.append(response.body)
        self._transport.write(b"".join(parts))
        if response.stream is not None and request.method != "HEAD":
            await self._send_pieces(response.stream, in_chunks=request.takes_chunks)

    async def _send_pieces(self, stream: AsyncIterator[bytes], *, in_chunks: bool) -> None:
        async for piece in stream:
            if self._drain is not None:
                await self._drain
            if self._transport.is_closing():
                return
            if piece:
                chunk = b"%x\r\n%b\r\n" % (len(piece), piece) if in_chunks else piece
                self._transport.write(chunk)
        if in_chunks:
            self._transport.write(b"0\r\n\r\n")

    def _go_on(self) -> None:
        """Go on to the next request, or close the connection."""
        self._server.total_requests += 1
        self._active_at = self._loop.time()
        self._answering = None
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()
        if self._is_last:
            self._close()
        elif self._waiting:
            self._answer(self._waiting.popleft())
        elif self._is_deaf:
            self._close()
        elif self._is_owed and self._arriving is not None and not self._transport.is_closing():
            self._invite(self._arriving)

    def _close(self) -> None:
        """Close the connection, but let a client that still sends read its answer first.

        To close on what it sends would reset the connection, and the answer might be lost.
        """
        if self._is_owed and not self._transport.is_closing():
            self._is_deaf = True
            self._transport.write_eof()
            self._loop.call_later(LINGER_SECONDS_MAX, self._transport.close)
        else:
            self._transport.close()

    def _refuse(self, refusal: Refusal) -> None:
        """Let what is no request be answered in its turn, and hear no more.

        One that was answered before its end, since its body is too large, has had its answer.
        """
        arriving = self._arriving if self._is_owed else None
        self._is_owed = self._is_deaf = True
        if arriving is None or arriving.body is not None:
            self._take(
                Request(
                    method="",
                    path="",
                    query=b"",
                    headers={},
                    body=b"",
                    address=self._address,
                    is_last=True,
                    refusal=refusal,
                )
            )
        elif self._answering is None:
            self._close()

    def _end_when_idle(self) -> None:
        """Look now and then, which costs less than a timer for every request.

        A request that arrives has no longer than that from its first byte on, and a client that
        does not read no longer than that from when it fell behind: what it has not read is lost.
        """
        now = self._loop.time()
        if self._drain is not None:
            active_at = self._full_at
        elif self._answering is not None:
            active_at = now
        else:
            active_at = self._active_at
        left_seconds = active_at + self._idle_seconds_max - now
        if left_seconds <= 0:
            self._transport.abort()
        else:
            self._idle_timer = self._loop.call_later(left_seconds, self._end_when_idle)


def _refusal_of(error: httptools.HttpParserError) -> Refusal:
    """Return what was refused while it was parsed, or that nothing could be."""
    cause = error.__context__
    return cause if isinstance(cause, Refusal) else MalformedRequest("It could not be read.")


def _path_and_query(url: bytes) -> tuple[bytes, bytes]:
    """Return both parts of an address, which is a path alone but when it is meant for a proxy."""
    if url.startswith(b"/") and b"#" not in url:
        path, _, query = url.partition(b"?")
        return path, query
    parsed = httptools.parse_url(url)
    return parsed.path, parsed.query or b""
