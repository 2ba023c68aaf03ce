"""A client's connection: requests are parsed from it and answered in their order.

Uvicorn runs the server and hands each of its connections to one of these.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote

import httptools
from typing_extensions import override

from ousel.web.exchange import Application, Exchange, RawHeader

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn.server import ServerState

UNREAD_BYTES_MAX: Final = 64 * 1024
HEAD_BYTES_MAX: Final = 64 * 1024  # of an address with its headers, as long as they arrive
REQUESTS_WAITING_MAX: Final = 16

_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}
_NOT_HTTP: Final = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: 29\r\nconnection: close\r\n\r\nThis is not an HTTP request.\n"
)

_HEAD_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: 33\r\nconnection: close\r\n\r\nThe request's head is too large.\n"
)


class Connection(asyncio.Protocol):
    """One connection; requests that a client sends ahead wait for their turn."""

    def __init__(
        self,
        config: "Config",
        server_state: "ServerState",
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Let the configuration's application answer; the state is uvicorn's own."""
        self._application = cast("Application", config.loaded_app)
        self._idle_seconds_max = config.timeout_keep_alive
        self._server = server_state
        self._state = app_state
        self._loop = _loop or asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: list[RawHeader] = []
        self._head_arrives = True
        self._head_bytes = 0
        self._arriving: Exchange | None = None
        self._answering: Exchange | None = None
        self._waiting: deque[Exchange] = deque()
        self._reading_paused = False
        self._drain: asyncio.Future[None] | None = None
        self._active_at = self._loop.time()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._server.connections.add(cast("Any", self))
        self._about_client = {
            "type": "http",
            "asgi": _ASGI,
            "server": _address(transport, "sockname"),
            "client": _address(transport, "peername"),
            "scheme": "https" if transport.get_extra_info("sslcontext") else "http",
            "root_path": "",
        }
        self._close_when_idle()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(cast("Any", self))
        self._idle_timer.cancel()
        self.resume_writing()
        if self._answering is not None:
            self._answering.abandon()

    @override
    def data_received(self, data: bytes) -> None:
        self._active_at = self._loop.time()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return  # an offer of another protocol: it is answered as if none had been made
        except httptools.HttpParserError:
            self._refuse(_NOT_HTTP)
        if self._head_arrives:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self._refuse(_HEAD_TOO_LARGE)

    @override
    def pause_writing(self) -> None:
        self._drain = self._loop.create_future()

    @override
    def resume_writing(self) -> None:
        if self._drain is not None:
            self._drain.set_result(None)
            self._drain = None

    def shutdown(self) -> None:
        """Close the connection, after the answer under way where there is one."""
        if self._answering is None:
            self._transport.close()
        else:
            self._answering.keep_alive = False

    def on_message_begin(self) -> None:
        """Expect a request."""
        self._url = b""
        self._headers = []
        self._head_arrives = True
        self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Take a piece of the address."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Begin to answer, or let the request wait for those before it."""
        self._head_arrives = False
        url = httptools.parse_url(self._url)
        version = self._parser.get_http_version()
        scope = self._about_client | {
            "http_version": version,
            "method": self._parser.get_method().decode("ascii"),
            "path": unquote(url.path.decode("ascii")),
            "raw_path": url.path,
            "query_string": url.query or b"",
            "headers": self._headers,
            "state": self._state,
        }
        exchange = self._arriving = Exchange(
            self,
            scope,
            keep_alive=version != "1.0" and self._parser.should_keep_alive(),
            continue_expected=(b"expect", b"100-continue") in self._headers,
        )
        if self._answering is None:
            self._answer(exchange)
        else:
            self._waiting.append(exchange)
            if len(self._waiting) >= REQUESTS_WAITING_MAX:
                self._pause_reading()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        assert self._arriving is not None
        if self._arriving.take(body) > UNREAD_BYTES_MAX:
            self._pause_reading()

    def on_message_complete(self) -> None:
        """Know that the request is whole."""
        assert self._arriving is not None
        self._arriving.complete()

    @property
    def common_headers(self) -> list[RawHeader]:
        """The headers that the server itself gives every answer."""
        return self._server.default_headers

    @property
    def is_full(self) -> bool:
        """Whether the client is slow to take what was sent."""
        return self._drain is not None

    def write(self, data: bytes) -> None:
        """Send to the client."""
        self._transport.write(data)

    async def drained(self) -> None:
        """Wait until the client has taken enough of what was sent."""
        if self._drain is not None:
            await asyncio.shield(self._drain)

    def read_on(self) -> None:
        """Go on reading, in case that has been paused."""
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()

    def end(self, exchange: Exchange) -> None:
        """Go on to the next request, or close the connection."""
        self._server.total_requests += 1
        self._active_at = self._loop.time()
        self._answering = None
        if not exchange.keep_alive:
            self._transport.close()
            return
        if self._waiting:
            self._answer(self._waiting.popleft())
        self.read_on()

    def _refuse(self, answer: bytes) -> None:
        """Answer what is no request; an answer under way comes first, and is the last."""
        if self._answering is not None and self._answering.is_owed:
            self._answering.abandon()  # the rest of its body will never come
            self._answering = None
        if self._answering is None:
            self._transport.write(answer)
            self._transport.close()
        else:
            self.shutdown()

    def _answer(self, exchange: Exchange) -> None:
        self._answering = exchange
        task = self._loop.create_task(exchange.run(self._application))
        self._server.tasks.add(task)
        task.add_done_callback(self._server.tasks.discard)

    def _pause_reading(self) -> None:
        if not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    def _close_when_idle(self) -> None:
        """Look now and then, which costs less than a timer for every request."""
        now = self._loop.time()
        if self._answering is not None and not self._answering.is_owed:
            self._active_at = now
        left_seconds = self._active_at + self._idle_seconds_max - now
        if left_seconds <= 0:
            self._transport.close()
        else:
            self._idle_timer = self._loop.call_later(left_seconds, self._close_when_idle)


def _address(transport: asyncio.BaseTransport, name: str) -> tuple[str, int] | None:
    address = transport.get_extra_info(name)
    return (str(address[0]), int(address[1])) if isinstance(address, (list, tuple)) else None
