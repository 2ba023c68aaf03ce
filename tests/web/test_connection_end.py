"""How a connection ends: by the client, after noise, when idle, and with the server."""

import asyncio
import contextlib
import time
from typing import Any

import pytest

from ousel.http import connection
from ousel.http.connection import REQUESTS_WAITING_MAX
from ousel.http.parser import HEAD_BYTES_MAX, SEGMENT_BYTES_MAX
from tests.web.echoes import (
    IDLE_SECONDS,
    PATIENCE_SECONDS,
    PIECE_BYTES,
    STREAM_PIECES,
    Bench,
    Line,
    get,
    post,
)


@pytest.mark.parametrize("head", [get("/a", b"Connection: close\r\n"), b"GET /a HTTP/1.0\r\n\r\n"])
async def test_a_connection_closes_when_the_client_says_so(line: Line, head: bytes) -> None:
    """With `Connection: close`, and for HTTP/1.0, the answer is the last one."""
    line.send(head)

    answered = await line.rest()

    assert b"\r\nconnection: close\r\n" in answered
    assert answered.endswith(b"/a ")


@pytest.mark.parametrize(
    "noise",
    [
        b"\x16\x03\x01\x02\x00",
        b"GET\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT /a HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT http://x/a HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT http://x/a HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: y\r\n\r\n",
    ],
)
async def test_what_is_not_http_is_refused(line: Line, noise: bytes) -> None:
    """A request that cannot be read is a 400, and the connection ends."""
    line.send(noise)

    answered = await line.rest()

    assert answered.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"connection: close\r\n" in answered


@pytest.mark.parametrize(
    "hosts", [b"", b"Host: x\r\nHost: x\r\n", b"Host: x\r\nX-Own: 1\r\nHost:\r\n"]
)
async def test_a_request_names_one_host(bench: Bench, line: Line, hosts: bytes) -> None:
    """HTTP/1.1 without a Host, or with more than one, is a 400 (RFC 9112, section 3.2)."""
    line.send(b"GET /a HTTP/1.1\r\n%b\r\n" % hosts)

    assert (await line.answer())[1] == b"malformed_request"
    [request] = bench.application.requests
    assert request.refusal is not None
    assert "Host" in request.refusal.detail


async def test_much_noise_is_refused_once(line: Line) -> None:
    """However long it goes on, it is answered once, and nothing fails."""
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, failure: failures.append(failure))
    for _ in range(10):
        line.send(b"\x00noise" * 20_000)
        await asyncio.sleep(0.01)

    assert (await line.rest()).count(b"HTTP/1.1 ") == 1
    assert not failures


async def test_a_head_without_end_is_refused(line: Line) -> None:
    """An address and headers that go on and on are a 431, and the connection ends."""
    line.send(b"GET / HTTP/1.1\r\nhost: x\r\nx-long: " + b"a" * HEAD_BYTES_MAX)

    answered = await line.rest()

    assert answered.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert answered.endswith(b"head_too_large")


async def test_a_head_without_end_behind_a_request_is_refused(line: Line) -> None:
    """What came before it in the same segment is not counted, but what comes after it is."""
    line.send(post("/a", b"1") + b"GET / HTTP/1.1\r\nhost: x\r\nx-long: ")
    await line.answer()
    line.send(b"a" * (HEAD_BYTES_MAX + 2 * SEGMENT_BYTES_MAX))

    assert (await line.rest()).startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")


async def test_requests_before_a_head_are_not_counted_with_it(line: Line) -> None:
    """A head that begins at the end of a large segment is a head like any other."""
    body = b"y" * (HEAD_BYTES_MAX // 2)
    head, end = b"GET /last HTTP/1.1\r\nHost:", b" x\r\n\r\n"
    line.send(post("/a", body) * 7 + head)
    answers = [await line.answer() for _ in range(7)]
    line.send(end)

    assert {answer[1] for answer in answers} == {b"/a " + body}
    assert (await line.answer())[1] == b"/last "


async def test_noise_behind_requests_is_refused_after_them(bench: Bench, line: Line) -> None:
    """The requests before it are answered in their order, then it is, and the connection ends."""
    line.send(get("/slow") + get("/a"))
    await asyncio.sleep(0.02)
    for _ in range(3):
        line.send(b"\x00\x00\x00")
        await asyncio.sleep(0.02)
    bench.application.let_go.set()
    answers = [await line.answer() for _ in range(3)]

    assert [answer[1] for answer in answers] == [b"slow", b"/a ", b"malformed_request"]
    assert [b"connection: close" in answer[0] for answer in answers] == [False, False, True]
    assert await line.rest() == b""


async def test_noise_behind_the_last_request_is_not_answered(line: Line) -> None:
    """Who says that nothing more comes is told nothing more."""
    line.send(get("/a", b"Connection: close\r\n") + b"\x00")

    assert (await line.rest()).endswith(b"/a ")


async def test_noise_in_a_body_that_is_answered_already_ends_the_connection(line: Line) -> None:
    """One request has one answer."""
    head = b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    line.send(head + b"20000\r\n" + b"x" * 0x20000)
    answered = await line.answer()
    line.send(b"noise")

    assert answered[1] == b"/a too large"
    async with asyncio.timeout(IDLE_SECONDS / 2):
        assert await line.rest() == b""


async def test_what_a_client_began_is_ended_though_it_has_left(bench: Bench) -> None:
    """The server knows of the work until it is done, so that it does not stop before."""
    async with bench.line() as line:
        line.send(get("/slow") + post("/never", b""))
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


async def test_a_request_has_no_longer_to_arrive_than_a_connection_may_be_idle(
    bench: Bench,
) -> None:
    """A byte now and then keeps nothing open: what counts is when the request began."""
    head, post_head = b"GET /b HTTP/1.1\r\nHost: x\r\nX: ", b"POST /a HTTP/1.1\r\nHost: x\r\n"
    slow = [
        (b"", b"\r\n"),
        (head, b"x"),
        (post_head + b"Content-Length: 999\r\n\r\n", b"x"),
        (post_head + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (post("/a", b"1"), b"\r\n"),
        (post("/a", b"1") + head, b"x"),
    ]

    lasted = await asyncio.gather(*[_seconds_open(bench, *each) for each in slow])

    assert all(IDLE_SECONDS * 0.9 < seconds < IDLE_SECONDS * 2 for seconds in lasted), lasted


async def _seconds_open(bench: Bench, start: bytes, dribble: bytes) -> float:
    """Return how long a connection stays open to a client that sends a little now and then."""
    started = time.monotonic()
    async with bench.line() as line:
        line.send(start)
        with contextlib.suppress(ConnectionError):
            while not line.reader.at_eof() and time.monotonic() < started + PATIENCE_SECONDS:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(IDLE_SECONDS / 10):
                        await line.reader.read()
                line.send(dribble)
    return time.monotonic() - started


async def test_an_answer_under_way_keeps_the_connection(bench: Bench, line: Line) -> None:
    """A request that takes longer than a connection may be idle is answered."""
    line.send(get("/slow"))
    await asyncio.sleep(IDLE_SECONDS * 1.2)
    bench.application.let_go.set()

    assert (await line.answer())[1] == b"slow"


async def test_a_client_that_reads_nothing_is_not_waited_for_longer_than_an_idle_one(
    bench: Bench,
) -> None:
    """An answer that is not taken is given up, whatever the client sends meanwhile."""
    async with contextlib.AsyncExitStack() as stack:
        lines = []
        for requests in (
            get("/stream"),
            get("/large"),
            get("/large", b"Connection: close\r\n"),
            get("/large") * 2 * REQUESTS_WAITING_MAX,
            get("/large") + b"\x00",
        ):
            line = await stack.enter_async_context(bench.line())
            line.writer.transport.pause_reading()  # type: ignore[attr-defined]
            line.send(requests)
            lines.append(line)
        await asyncio.sleep(IDLE_SECONDS / 2)
        for each in lines:
            each.send(b"GET /more HTTP/1.1\r\n")
        assert len(bench.state.connections) == len(lines)
        await asyncio.sleep(IDLE_SECONDS)

        assert not bench.state.connections
        assert not bench.state.tasks


@pytest.mark.parametrize("path", ["/stream", "/large"])
async def test_a_server_that_stops_does_not_wait_for_a_client_that_reads_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """It has as long as one that is still sending; who reads has its answer whole."""
    monkeypatch.setattr(connection, "LINGER_SECONDS_MAX", 1.0)
    bench.idle_seconds = 60
    async with bench.line() as idle, bench.line() as reading:
        for line in (idle, reading):
            line.writer.transport.pause_reading()  # type: ignore[attr-defined]
            line.send(get(path))
        await asyncio.sleep(0.1)
        for each in list(bench.state.connections):
            each.shutdown()
        reading.writer.transport.resume_reading()  # type: ignore[attr-defined]
        answered = await reading.rest()
        await asyncio.sleep(1.1)

        assert len(answered) > PIECE_BYTES * STREAM_PIECES
        assert not bench.state.connections


async def test_a_server_that_stops_finishes_what_was_begun(bench: Bench, line: Line) -> None:
    """The answer under way goes out and says that it is the last; idle connections close."""
    async with bench.line() as idle:
        line.send(get("/slow"))
        await asyncio.sleep(0.05)
        for each in list(bench.state.connections):
            each.shutdown()
        bench.application.let_go.set()

        assert await idle.rest() == b""
    answered = await line.rest()
    assert b"\r\nconnection: close\r\n" in answered
    assert answered.endswith(b"slow")
