"""A connection: requests are answered in their order, however their bytes arrive."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from uvicorn.server import ServerState

from ousel.web.connection import HEAD_BYTES_MAX, REQUESTS_WAITING_MAX, Connection
from ousel.web.requests import BODY_BYTES_MAX, Request, Response, lines

PATIENCE_SECONDS = 5.0
IDLE_SECONDS = 1
BIG_BYTES = 2 * 1024 * 1024
PIECE_BYTES = 64 * 1024
STREAM_PIECES = 256


class Echo:
    """Answers with the request's path and body; some paths behave in another way."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.let_go = asyncio.Event()
        self.pieces_sent = 0
        self.ended = asyncio.Event()

    async def respond(self, request: Request) -> Response:
        self.requests.append(request)
        match request.path:
            case "/broken":
                raise RuntimeError("as told")
            case "/split":
                return Response(200, lines((b"x-note", b"a\r\nx-other: b")), b"")
            case "/slow":
                await self.let_go.wait()
                self.ended.set()
                return answer(b"slow")
            case "/nothing":
                return Response(204, b"", b"")
            case "/stream":
                return Response(200, b"", b"", self._stream())
            case "/torn":
                return Response(200, b"", b"", self._torn())
            case path:
                body = b"too large" if request.body is None else request.body
                return answer(path.encode() + b" " + body)

    async def _stream(self) -> AsyncIterator[bytes]:
        for _ in range(STREAM_PIECES):
            yield b"s" * PIECE_BYTES
            self.pieces_sent += 1

    async def _torn(self) -> AsyncIterator[bytes]:
        yield b"half"
        raise RuntimeError("as told")


def answer(body: bytes) -> Response:
    return Response(200, b"content-length: %d\r\n" % len(body), body)


class Line:
    """A client's end of the wire."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

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


class Bench:
    """A server of one small application."""

    def __init__(self) -> None:
        self.application = Echo()
        self.state = ServerState()
        self.state.default_headers = [(b"date", b"today")]

    @asynccontextmanager
    async def line(self) -> AsyncIterator[Line]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        yield Line(reader, writer)
        writer.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self.application, self.state, IDLE_SECONDS), "127.0.0.1", 0
        )
        self.port = server.sockets[0].getsockname()[1]
        yield
        server.close()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    async with bench.running():
        yield bench


@pytest.fixture
async def line(bench: Bench) -> AsyncIterator[Line]:
    async with bench.line() as line:
        yield line


def post(path: str, body: bytes) -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (
        path.encode(),
        len(body),
        body,
    )


async def test_an_answer_has_the_servers_headers_and_its_own(line: Line) -> None:
    """The head is the status, what the server adds, and what the application gave."""
    line.send(post("/a", b"hello"))

    assert await line.answer() == (
        b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-length: 8\r\n\r\n",
        b"/a hello",
    )


async def test_a_request_may_arrive_byte_by_byte(line: Line) -> None:
    """How the network cuts a request makes no difference."""
    for byte in post("/cut?q=1", b"hello"):
        line.send(bytes([byte]))
        await line.writer.drain()
        await asyncio.sleep(0)

    assert (await line.answer())[1] == b"/cut hello"


async def test_the_application_sees_the_request_as_it_was_sent(bench: Bench, line: Line) -> None:
    """Names of headers in lower case, one that comes twice as a list; the query apart."""
    line.send(b"GET /a%20b?c=%20d HTTP/1.1\r\nHOST: x\r\nX-Two: 1\r\nX-Two: 2\r\n\r\n")
    await line.answer()

    [request] = bench.application.requests
    assert request == Request(
        method="GET",
        path="/a%20b",
        query=b"c=%20d",
        headers={b"host": b"x", b"x-two": b"1, 2"},
        body=b"",
        address="127.0.0.1",
    )


@pytest.mark.parametrize("address", [b"http://elsewhere/a?b#c", b"/a?b"])
async def test_an_address_may_be_whole(bench: Bench, line: Line, address: bytes) -> None:
    """As a proxy is sent it: what counts is the path and the query."""
    line.send(b"GET %b HTTP/1.1\r\n\r\n" % address)
    await line.answer()

    assert (bench.application.requests[0].path, bench.application.requests[0].query) == ("/a", b"b")


async def test_requests_sent_ahead_are_answered_in_their_order(bench: Bench, line: Line) -> None:
    """The second waits until the first is answered, even if it would be quicker."""
    line.send(b"GET /slow HTTP/1.1\r\n\r\n" + post("/b", b"1") + post("/c", b"2"))
    await asyncio.sleep(0.05)
    assert len(bench.application.requests) == 1
    bench.application.let_go.set()

    assert [(await line.answer())[1] for _ in range(3)] == [b"slow", b"/b 1", b"/c 2"]


async def test_many_requests_sent_ahead_are_all_answered(bench: Bench, line: Line) -> None:
    """Past a limit the server reads no further until it has caught up, and loses nothing."""
    count = REQUESTS_WAITING_MAX * 100
    line.send(b"GET /slow HTTP/1.1\r\n\r\n")
    line.send(b"".join(post(f"/{number}", b"x" * 1000) for number in range(count)))
    await asyncio.sleep(0.05)
    bench.application.let_go.set()
    await line.answer()

    for number in range(count):
        assert (await line.answer())[1].startswith(b"/%d x" % number)


@pytest.mark.parametrize(
    "head", [b"GET /a HTTP/1.1\r\nConnection: close\r\n\r\n", b"GET /a HTTP/1.0\r\n\r\n"]
)
async def test_a_connection_closes_when_the_client_says_so(line: Line, head: bytes) -> None:
    """With `Connection: close`, and for HTTP/1.0, the answer is the last one."""
    line.send(head)

    answered = await line.rest()

    assert b"\r\nconnection: close\r\n" in answered
    assert answered.endswith(b"/a ")


async def test_a_head_request_gets_the_head_alone(line: Line) -> None:
    """The length is told, the body is not sent, and the connection goes on."""
    line.send(b"HEAD /four HTTP/1.1\r\n\r\n")
    async with asyncio.timeout(PATIENCE_SECONDS):
        head = await line.reader.readuntil(b"\r\n\r\n")
    line.send(post("/next", b""))

    assert b"content-length: 6\r\n" in head
    assert (await line.answer())[1] == b"/next "


async def test_no_content_has_no_body_and_no_length(line: Line) -> None:
    """A 204 ends with its head."""
    line.send(b"GET /nothing HTTP/1.1\r\nConnection: close\r\n\r\n")

    answered = await line.rest()

    assert answered.startswith(b"HTTP/1.1 204 No Content\r\n")
    assert b"transfer-encoding" not in answered
    assert answered.endswith(b"\r\n\r\n")


async def test_a_body_may_come_in_chunks(line: Line) -> None:
    """A request without a length is read to its last chunk."""
    line.send(b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
    await asyncio.sleep(0.02)
    line.send(b"2\r\nde\r\n0\r\n\r\n")

    assert (await line.answer())[1] == b"/a abcde"


async def test_a_client_that_asks_before_it_sends_is_told_to_go_on(line: Line) -> None:
    """`Expect: 100-continue` is answered at once."""
    line.send(b"POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await line.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    line.send(b"ok")

    assert (await line.answer())[1] == b"/a ok"


async def test_a_client_that_asks_to_send_too_much_is_told_at_once(line: Line) -> None:
    """The body is not asked for, and not waited for."""
    length = BODY_BYTES_MAX + 1
    line.send(b"POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % length)

    assert (await line.answer())[1] == b"/a too large"


async def test_a_body_of_the_largest_size_arrives_whole(line: Line) -> None:
    """To the last byte that is allowed."""
    body = b"y" * BODY_BYTES_MAX
    line.send(post("/a", body))

    assert (await line.answer())[1] == b"/a " + body


async def test_a_body_that_is_too_large_is_passed_over(line: Line) -> None:
    """It is answered before it is in; the next request is found all the same."""
    line.send(post("/a", b"x" * BIG_BYTES) + post("/next", b"1"))

    assert [(await line.answer())[1] for _ in range(2)] == [b"/a too large", b"/next 1"]


async def test_chunks_that_add_up_to_too_much_are_passed_over(line: Line) -> None:
    """A body without a length is kept no further than one with."""
    chunk = b"8000\r\n%b\r\n" % (b"x" * 0x8000)
    line.send(b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk * 9)
    first = await line.answer()
    line.send(b"0\r\n\r\n" + post("/next", b"1"))

    assert [first[1], (await line.answer())[1]] == [b"/a too large", b"/next 1"]


async def test_a_stream_waits_for_a_slow_reader(bench: Bench, line: Line) -> None:
    """What the client does not take is not produced; in the end it has it all, in chunks."""
    line.writer.transport.pause_reading()  # type: ignore[attr-defined]
    line.send(b"GET /stream HTTP/1.1\r\nConnection: close\r\n\r\n")
    await asyncio.sleep(0.1)
    produced = bench.application.pieces_sent
    line.writer.transport.resume_reading()  # type: ignore[attr-defined]

    answered = await line.rest()

    assert produced < STREAM_PIECES
    assert b"transfer-encoding: chunked\r\n" in answered
    assert answered.count(b"s") >= STREAM_PIECES * PIECE_BYTES
    assert answered.endswith(b"\r\n0\r\n\r\n")


async def test_a_stream_that_breaks_off_does_not_look_whole(line: Line) -> None:
    """The connection ends without the last chunk, by which a client knows."""
    line.send(b"GET /torn HTTP/1.1\r\n\r\n")

    answered = await line.rest()

    assert answered.endswith(b"4\r\nhalf\r\n")


@pytest.mark.parametrize(
    "noise",
    [
        b"\x16\x03\x01\x02\x00",
        b"GET\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\n\r\n",
        b"CONNECT x:1 HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_is_not_http_is_refused(line: Line, noise: bytes) -> None:
    """A request that cannot be read is a 400, and the connection ends."""
    line.send(noise)

    answered = await line.rest()

    assert answered.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"connection: close\r\n" in answered


async def test_a_head_without_end_is_refused(line: Line) -> None:
    """An address and headers that go on and on are a 431, and the connection ends."""
    line.send(b"GET / HTTP/1.1\r\nhost: x\r\nx-long: " + b"a" * HEAD_BYTES_MAX)

    answered = await line.rest()

    assert answered.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert answered.endswith(b"The request's head is too large.\n")


async def test_a_client_that_goes_on_sending_reads_its_answer_all_the_same(line: Line) -> None:
    """The connection is closed to it only when it has had time to read: a reset would lose it."""
    line.send(b"POST /a HTTP/1.1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % BIG_BYTES)
    answered = await line.answer()
    for _ in range(20):
        line.send(b"x" * PIECE_BYTES)
        await line.writer.drain()
        await asyncio.sleep(0)

    assert answered[1] == b"/a too large"
    assert await line.rest() == b""


async def test_noise_behind_a_request_does_not_spoil_its_answer(bench: Bench, line: Line) -> None:
    """The request before it is answered, then the connection ends."""
    line.send(b"GET /slow HTTP/1.1\r\n\r\n")
    await asyncio.sleep(0.02)
    line.send(b"\x00\x00\x00")
    await asyncio.sleep(0.02)
    bench.application.let_go.set()

    assert (await line.rest()).endswith(b"slow")


@pytest.mark.parametrize("body", [b"zz\r\n", b"3\r\nabc\r\nzz\r\n", b"3\r\nabcd\r\n"])
async def test_a_body_that_breaks_off_in_noise_is_refused(
    bench: Bench, line: Line, body: bytes
) -> None:
    """Chunks that cannot be read are a 400, and the application never hears of them."""
    line.send(b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    await asyncio.sleep(0.02)
    line.send(body)

    assert (await line.rest()).startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert not bench.application.requests


async def test_a_body_that_does_not_come_is_not_waited_for_longer_than_for_a_request(
    bench: Bench, line: Line
) -> None:
    """A client that owes the rest of its request is idle, and its connection ends so."""
    line.send(b"POST /a HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc")

    assert await line.rest() == b""
    assert not bench.application.requests


async def test_an_offer_of_another_protocol_is_passed_over(line: Line) -> None:
    """An upgrade is never taken up; the request is answered as it is."""
    line.send(b"GET /a HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
    first = await line.answer()
    line.send(post("/b", b"2"))

    assert [first[1], (await line.answer())[1]] == [b"/a ", b"/b 2"]


@pytest.mark.parametrize("path", ["/broken", "/split"])
async def test_an_application_that_fails_is_a_500(line: Line, path: str) -> None:
    """Whatever goes wrong is told, and a line break in a header is never sent on."""
    line.send(f"GET {path} HTTP/1.1\r\n\r\n".encode())

    answered = await line.rest()

    assert answered.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert b"x-other" not in answered


async def test_what_a_client_began_is_ended_though_it_has_left(bench: Bench) -> None:
    """The server knows of the work until it is done, so that it does not stop before."""
    async with bench.line() as line:
        line.send(b"GET /slow HTTP/1.1\r\n\r\n" + post("/never", b""))
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.05)
    assert not bench.state.connections
    assert len(bench.state.tasks) == 1

    bench.application.let_go.set()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await bench.application.ended.wait()
    await asyncio.sleep(0.01)
    assert not bench.state.tasks
    assert [request.path for request in bench.application.requests] == ["/slow"]


async def test_an_idle_connection_is_closed(line: Line) -> None:
    """Some time after its last answer the server lets go of a connection."""
    line.send(post("/a", b""))
    await line.answer()

    assert await line.rest() == b""


async def test_an_answer_under_way_keeps_the_connection(bench: Bench, line: Line) -> None:
    """A request that takes longer than a connection may be idle is answered."""
    line.send(b"GET /slow HTTP/1.1\r\n\r\n")
    await asyncio.sleep(IDLE_SECONDS * 1.2)
    bench.application.let_go.set()

    assert (await line.answer())[1] == b"slow"


async def test_a_server_that_stops_finishes_what_was_begun(bench: Bench, line: Line) -> None:
    """The answer under way goes out and says that it is the last; idle connections close."""
    async with bench.line() as idle:
        line.send(b"GET /slow HTTP/1.1\r\n\r\n")
        await asyncio.sleep(0.05)
        for connection in list(bench.state.connections):
            connection.shutdown()
        bench.application.let_go.set()

        assert await idle.rest() == b""
    answered = await line.rest()
    assert b"\r\nconnection: close\r\n" in answered
    assert answered.endswith(b"slow")
