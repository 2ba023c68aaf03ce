"""A client's connection: requests arrive on it and are answered in order.

A request is answered once all of it has arrived, so a slow sender occupies only its connection. If
the client hangs up, the task that answers its request is canceled.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextvars import Context
from http import HTTPStatus
from typing import Any, Final, Protocol, cast

from typing_extensions import override

from ousel.http.messages import AnswerDropped, Request, Responder, Response
from ousel.http.parser import RequestParser
from ousel.http.turns import Turns
from ousel.http.unread import has_hung_up, seconds_unread
from ousel.kernel.logs import EventLogger

REQUESTS_WAITING_MAX: Final = 16
LINGER_SECONDS_MAX: Final = 5.0
UNREAD_SECONDS_MIN: Final = 1.0  # below this, a request counts as arrived when it is read

_FAILED_RESPONSE: Final = Response(HTTPStatus.INTERNAL_SERVER_ERROR, b"content-length: 0\r\n", b"")

_STATUS_LINES: Final[dict[int, bytes]] = {
    status: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus
}

_log = EventLogger()


class ServerState(Protocol):
    """What all connections of a server share."""

    connections: set[Any]
    tasks: set[asyncio.Task[None]]  # canceled tasks that have not ended; the server waits for them
    default_headers: list[tuple[bytes, bytes]]
    turns: Turns  # for the first request of each connection, and for clients that hang up


class OwnServerState:
    """The shared state of a server that uvicorn does not run."""

    def __init__(self) -> None:
        """Begin without connections."""
        self.connections: set[Any] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.default_headers: list[tuple[bytes, bytes]] = []
        self.turns = Turns()


class Connection(RequestParser):
    """One connection; pipelined requests are answered one after the other."""

    def __init__(
        self, responder: Responder, server_state: ServerState, idle_seconds_max: float
    ) -> None:
        """Pass the requests to the responder."""
        super().__init__()
        self._responder = responder
        self._server_state = server_state
        self._idle_seconds_max = idle_seconds_max
        self._waiting_requests: deque[Request] = deque()
        self._answer_task: asyncio.Task[None] | None = None
        # Close after the current answer; if no answer is under way, after the next one.
        self._closes_after_answer = False
        self._is_reading_paused = False
        self._writable_again: asyncio.Future[None] | None = None
        self._is_new = True  # until its first request has its turn
        self._answers_get = False  # the current request cannot write

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._server_state.connections.add(self)
        self._socket = transport.get_extra_info("socket")
        peer = transport.get_extra_info("peername")
        self._address = str(peer[0]) if isinstance(peer, (list, tuple)) else ""
        self._close_when_idle()

    @override
    def eof_received(self) -> bool:
        """Close the connection in its turn; at once if its request has not begun or may write."""
        waits_for_turn = not self._is_new and (self._answers_get or self._answer_task is None)
        if waits_for_turn:
            self._server_state.turns.call(self._transport.close)
        return waits_for_turn  # whether the connection stays open

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._server_state.connections.discard(self)
        self._idle_timer.cancel()
        del self._parser  # it refers to this connection: only garbage collection would free them
        self.resume_writing()
        self._waiting_requests.clear()
        # A canceled task keeps its exception, whose traceback refers to this connection. If the
        # connection referred to the task, only garbage collection would free them.
        task, self._answer_task = self._answer_task, None
        if task is not None:  # a commit that has begun is completed
            self._server_state.tasks.add(task)
            task.add_done_callback(self._server_state.tasks.discard)
            if self._answers_get and not self._is_new:
                self._server_state.turns.call(task.cancel)
            else:  # at once: it has not begun, or may be about to write
                task.cancel()

    @override
    def pause_writing(self) -> None:
        self._writable_again = self._loop.create_future()
        self._unwritable_since = self._loop.time()

    @override
    def resume_writing(self) -> None:
        if self._writable_again is not None:
            self._writable_again.set_result(None)
            self._writable_again = None

    def shutdown(self) -> None:
        """Close the connection, after the current answer if there is one.

        A client that does not read its answers gets only a few more seconds.
        """
        self._last_active_at = self._unwritable_since = self._loop.time()
        self._closes_after_answer = True
        if self._answer_task is None:
            self._transport.close()
        self._idle_seconds_max = min(self._idle_seconds_max, LINGER_SECONDS_MAX)
        self._idle_timer.cancel()
        self._close_when_idle()

    @override
    def _handle_request(self, request: Request) -> None:
        parser = self._parser
        keeps_alive = parser.should_keep_alive()
        if not keeps_alive or b"connection" in request.headers:  # includes all of HTTP/1.0
            request.accepts_chunks = parser.get_http_version() == "1.1"
            request.is_last = not (keeps_alive and request.accepts_chunks)
        if request.method != "GET":  # it may write, so it has a deadline
            unread_seconds = seconds_unread(self._socket)
            if unread_seconds > UNREAD_SECONDS_MIN:
                request.arrived_at = self._loop.time() - unread_seconds
        if self._answer_task is None:
            self._start_answer(request)
            return
        self._set_arrival(request)
        self._waiting_requests.append(request)
        if len(self._waiting_requests) >= REQUESTS_WAITING_MAX and not self._is_reading_paused:
            self._is_reading_paused = True
            self._transport.pause_reading()

    @override
    def _send_continue(self, request: Request) -> None:
        """Send `100 Continue` if the client waits for it, but never in the middle of an answer."""
        expects = request.headers.get(b"expect", b"").lower() == b"100-continue"
        is_waiting = expects and request.body == b"" and self._parser.get_http_version() == "1.1"
        if is_waiting and self._answer_task is None and not self._transport.is_closing():
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    @override
    def _close_when_answered(self) -> None:
        if self._answer_task is None:
            self._close()

    def _start_answer(self, request: Request) -> None:
        self._answers_get = request.method == "GET"
        # Without a context of its own, a waiting request would inherit the last one's deadline.
        self._answer_task = self._loop.create_task(self._answer_request(request), context=Context())

    async def _answer_request(self, request: Request) -> None:
        """Send the response; if the responder fails, answer 500 and close the connection."""
        if self._is_new:
            await self._take_turn(request)
        try:
            response = await self._responder.respond(request)
        except AnswerDropped:
            self._transport.abort()
            return
        except Exception:  # noqa: BLE001 - whatever failed, the client gets an answer
            _log.exception("the responder failed", path=request.path)
            request.is_last = True
            response = _FAILED_RESPONSE
        self._closes_after_answer |= request.is_last
        try:
            if self._writable_again is not None:
                await self._writable_again
            if not self._transport.is_closing():
                self._send(request, response)
                if response.stream is not None and request.method != "HEAD":
                    await self._send_stream(response.stream, in_chunks=request.accepts_chunks)
        except Exception:  # noqa: BLE001 - a partial answer must not look complete
            _log.exception("sending an answer failed", path=request.path)
            self._transport.abort()
        self._next_request()

    async def _take_turn(self, request: Request) -> None:
        """Wait until the first request of this connection may begin."""
        self._set_arrival(request)
        try:
            await self._server_state.turns.take()
        except asyncio.CancelledError:
            self._responder.give_up(request)
            raise
        self._is_new = False

    def _set_arrival(self, request: Request) -> None:
        """Note when the request arrived, because it has to wait here."""
        if request.arrived_at is None:
            request.arrived_at = self._loop.time()

    def _send(self, request: Request, response: Response) -> None:
        """Send the response, except for its stream."""
        parts = [_STATUS_LINES[response.status]]
        parts += [b"%b: %b\r\n" % header for header in self._server_state.default_headers]
        parts.append(response.head)
        if self._closes_after_answer:
            parts.append(b"connection: close\r\n")
        if response.stream is not None and request.accepts_chunks:
            parts.append(b"transfer-encoding: chunked\r\n")
        parts.append(b"\r\n")
        if request.method != "HEAD":
            parts.append(response.body)
        self._transport.write(b"".join(parts))

    async def _send_stream(self, stream: AsyncIterator[bytes], *, in_chunks: bool) -> None:
        async for piece in stream:
            if self._writable_again is not None:
                await self._writable_again
            if self._transport.is_closing():
                return
            if piece:
                chunk = b"%x\r\n%b\r\n" % (len(piece), piece) if in_chunks else piece
                self._transport.write(chunk)
        if in_chunks:
            self._transport.write(b"0\r\n\r\n")

    def _next_request(self) -> None:
        """Answer the next request, or close the connection if this was the last one."""
        self._last_active_at = self._loop.time()
        self._answer_task = None
        if self._is_reading_paused:
            self._read_on()
        if self._transport.is_closing():
            return
        if self._closes_after_answer:
            self._close()
        elif self._waiting_requests:
            self._start_answer(self._waiting_requests.popleft())
        elif self._is_ignoring_input:
            self._close()
        elif self._is_incomplete and self._request is not None:
            self._send_continue(self._request)

    def _read_on(self) -> None:
        """Resume reading, unless many requests still wait: then only look for a hang-up."""
        is_enough = len(self._waiting_requests) >= REQUESTS_WAITING_MAX
        if not is_enough or self._closes_after_answer:
            self._is_reading_paused = False
            self._transport.resume_reading()
        elif has_hung_up(self._socket):
            self._transport.close()

    def _close(self) -> None:
        """Close the connection, but let a client that is still sending read its answer first.

        Closing while data arrives would reset the connection, and the answer might be lost.
        """
        if self._is_incomplete and not self._transport.is_closing():
            self._is_ignoring_input = True
            self._transport.write_eof()
            self._loop.call_later(LINGER_SECONDS_MAX, self._transport.close)
        else:
            self._transport.close()

    def _close_when_idle(self) -> None:
        """Close the connection if it was idle for too long, else check again later.

        One timer per connection costs less than one per request. The same limit applies to
        the arrival of a request, from its first byte on, and to a client that stops reading.
        """
        now = self._loop.time()
        if self._writable_again is not None:
            active_at = self._unwritable_since
        elif self._answer_task is not None:
            active_at = now
        else:
            active_at = self._last_active_at
        left_seconds = active_at + self._idle_seconds_max - now
        if left_seconds <= 0:
            self._transport.abort()
        else:
            self._idle_timer = self._loop.call_later(left_seconds, self._close_when_idle)
