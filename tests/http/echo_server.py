"""A server inside the test's process whose application echoes, and a client of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from typing_extensions import override

from ousel.http.connection import Connection, OwnServerState
from ousel.http.messages import AnswerDropped, Request, Response, header_lines
from ousel.kernel.cancellation import run_to_end
from ousel.kernel.deadlines import current_deadline, set_deadline
from tests.support.waiting import until

if TYPE_CHECKING:
    import socket

PATIENCE_SECONDS = 30.0  # a busy machine is not a defect
IDLE_SECONDS = 600.0  # longer than any stall of the machine
PIECE_BYTES = 64 * 1024
STREAM_PIECES = 256
WAYS_TO_HANG_UP = ["close", "half-close", "reset"]


class EchoApplication:
    """Answers with the request's path and body; some paths behave differently."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.deadlines: list[float] = []  # with which each request began
        self.let_go = asyncio.Event()
        self.pieces_sent = 0
        self.canceled = asyncio.Event()
        self.cancels = 0
        self.cancels_before: dict[str, int] = {}  # by the path of the request that began then
        self.given_up: list[Request] = []  # before they were begun
        self.written = asyncio.Event()

    async def respond(self, request: Request) -> Response:
        self.requests.append(request)
        self.cancels_before[request.path] = self.cancels
        self.deadlines.append(current_deadline())
        set_deadline(0.0)
        if request.refusal is not None:
            return answer(request.refusal.code.encode(), request.refusal.status)
        return await self._echo(request)

    def give_up(self, request: Request) -> None:
        self.given_up.append(request)

    async def _echo(self, request: Request) -> Response:
        match request.path:
            case "/dropped":
                raise AnswerDropped
            case "/broken":
                raise RuntimeError("planned failure")
            case "/split":
                return Response(200, header_lines((b"x-note", b"a\r\nx-other: b")), b"")
            case "/slow" | "/write" as path:
                return await (self._wait() if path == "/slow" else run_to_end(self._write()))
            case "/nothing":
                return Response(204, b"", b"")
            case "/large":
                return answer(b"l" * PIECE_BYTES * STREAM_PIECES)
            case "/stream" | "/torn" as path:
                stream = self._stream() if path == "/stream" else self._torn()
                return Response(200, b"", b"", stream)
            case path:
                body = b"too large" if request.body is None else request.body
                return answer(path.encode() + b" " + body)

    async def _wait(self) -> Response:
        try:
            await self.let_go.wait()
        except asyncio.CancelledError:
            self.canceled.set()
            self.cancels += 1
            raise
        return answer(b"slow")

    async def _write(self) -> Response:
        await self.let_go.wait()
        self.written.set()
        return answer(b"written")

    async def _stream(self) -> AsyncIterator[bytes]:
        for _ in range(STREAM_PIECES):
            yield b"s" * PIECE_BYTES
            self.pieces_sent += 1

    async def _torn(self) -> AsyncIterator[bytes]:
        yield b"half"
        raise RuntimeError("planned failure")


def answer(body: bytes, status: int = 200) -> Response:
    """Return an answer with this body."""
    return Response(status, b"content-length: %d\r\n" % len(body), body)


class EchoClient:
    """A client that sends bytes as they are."""

    def __init__(
        self, server: "EchoServer", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._server = server
        self._received_before = server.bytes_received
        self._sent = 0
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)
        self._sent += len(data)

    def hang_up(self, way: str) -> None:
        """Hang up in one of the WAYS_TO_HANG_UP."""
        match way:
            case "close":
                self.writer.close()
            case "half-close":
                self.writer.write_eof()
            case _:
                self.writer.transport.abort()

    async def wait_until_received(self) -> None:
        """Wait until the server has received everything sent so far, or closed the connection."""
        wanted = self._received_before + self._sent
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self._server.bytes_received < wanted and self._server.state.connections:
                self._server.progress.clear()
                await self._server.progress.wait()

    async def answer(self) -> tuple[bytes, bytes]:
        """Read one answer with a length: its head and its body."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            head = await self.reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            length = next(line for line in lines if line.startswith(b"content-length: "))
            return head, await self.reader.readexactly(int(length[16:]))

    async def rest(self) -> bytes:
        """Read until the server closes."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.reader.read()


class EchoServer:
    """Serves the echoing application."""

    def __init__(self) -> None:
        self.application = EchoApplication()
        self.idle_seconds: float = IDLE_SECONDS
        self.bytes_received = 0
        self.accepted: list[socket.socket] = []
        self.progress = asyncio.Event()  # bytes arrived, or a connection ended
        self.reading_pauses = 0  # how often the server stopped reading from a client
        self.waiting_when_read = 0  # how many requests of a client waited when it read on, at most
        self.writing_pauses = 0  # how often a client did not read what was written
        self.state = OwnServerState()
        self.state.default_headers = [(b"date", b"today")]

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[EchoClient]:
        """Connect for the length of a block."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        yield EchoClient(self, reader, writer)
        writer.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listen for the length of a block."""
        server = await asyncio.get_running_loop().create_server(
            lambda: _CountingConnection(self), "127.0.0.1", 0
        )
        self.port = server.sockets[0].getsockname()[1]
        yield
        server.close()
        await until(lambda: not self.state.connections)  # crowds are let go in turns


class _CountingConnection(Connection):
    def __init__(self, server: EchoServer) -> None:
        super().__init__(server.application, server.state, server.idle_seconds)
        self._echo_server = server

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._echo_server.accepted.append(self._socket)

    @override
    def data_received(self, data: bytes) -> None:
        self._echo_server.bytes_received += len(data)
        waiting = max(self._echo_server.waiting_when_read, len(self._waiting_requests))
        self._echo_server.waiting_when_read = waiting
        super().data_received(data)
        self._echo_server.reading_pauses += not self._transport.is_reading()
        self._echo_server.progress.set()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._echo_server.progress.set()

    @override
    def pause_writing(self) -> None:
        self._echo_server.writing_pauses += 1
        super().pause_writing()


def get(path: str, headers: bytes = b"") -> bytes:
    """Return a request's bytes; each of the headers ends its line."""
    return b"GET %b HTTP/1.1\r\nHost: x\r\n%b\r\n" % (path.encode(), headers)


def post(path: str, body: bytes) -> bytes:
    """Return a request's bytes."""
    return b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (
        path.encode(),
        len(body),
        body,
    )
