"""How a connection ends: by the client, after malformed bytes, when idle, and with the server."""

import asyncio
import contextlib
from typing import Any

import pytest

from ousel.http import connection
from ousel.http.connection import REQUESTS_WAITING_MAX, Connection
from ousel.http.parser import HEAD_BYTES_MAX
from ousel.http.unread import has_hung_up
from tests.http.echo_server import (
    IDLE_SECONDS,
    PATIENCE_SECONDS,
    PIECE_BYTES,
    STREAM_PIECES,
    WAYS_TO_HANG_UP,
    EchoClient,
    EchoServer,
    get,
    post,
)
from tests.support.garbage import garbage_of
from tests.support.loop_time import LoopTime
from tests.support.waiting import until


@pytest.mark.parametrize("head", [get("/a", b"Connection: close\r\n"), b"GET /a HTTP/1.0\r\n\r\n"])
async def test_a_connection_closes_when_the_client_says_so(client: EchoClient, head: bytes) -> None:
    """With `Connection: close`, and for HTTP/1.0, the answer is the last one."""
    client.send(head)

    answered = await client.rest()

    assert b"\r\nconnection: close\r\n" in answered
    assert answered.endswith(b"/a ")


async def test_a_closed_connection_leaves_no_garbage(echo_server: EchoServer) -> None:
    """It is freed at once: pauses of the garbage collector delay every other connection."""
    with garbage_of(Connection) as found:
        async with echo_server.connect() as client:
            client.send(get("/a"))
            await client.answer()
        await until(lambda: not echo_server.state.connections)

    assert found == []


async def test_a_client_that_hangs_up_leaves_no_garbage(echo_server: EchoServer) -> None:
    """Thousands may hang up while they wait; each of them would leave dozens of objects."""
    with garbage_of(Connection) as found:
        async with echo_server.connect() as client:
            client.send(get("/slow"))
            await until(lambda: bool(echo_server.application.requests))
        await until(lambda: not echo_server.state.connections and not echo_server.state.tasks)

    assert echo_server.application.canceled.is_set()
    assert found == []


async def test_a_dropped_answer_ends_the_connection(
    echo_server: EchoServer, client: EchoClient
) -> None:
    """Nothing is sent, and the requests behind it on the connection are not carried out."""
    client.send(get("/dropped") + get("/a"))

    assert await client.rest() == b""
    assert [request.path for request in echo_server.application.requests] == ["/dropped"]
    await until(lambda: not echo_server.state.connections and not echo_server.state.tasks)


@pytest.mark.parametrize(
    "malformed",
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
async def test_what_is_not_http_is_refused(client: EchoClient, malformed: bytes) -> None:
    """A request that cannot be read is a 400, and the connection ends."""
    client.send(malformed)

    answered = await client.rest()

    assert answered.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"connection: close\r\n" in answered


@pytest.mark.parametrize(
    "hosts", [b"", b"Host: x\r\nHost: x\r\n", b"Host: x\r\nX-Own: 1\r\nHost:\r\n"]
)
async def test_a_request_names_one_host(
    echo_server: EchoServer, client: EchoClient, hosts: bytes
) -> None:
    """HTTP/1.1 without a Host, or with more than one, is a 400 (RFC 9112, section 3.2)."""
    client.send(b"GET /a HTTP/1.1\r\n%b\r\n" % hosts)

    assert (await client.answer())[1] == b"malformed_request"
    [request] = echo_server.application.requests
    assert request.refusal is not None
    assert "Host" in request.refusal.detail


async def test_many_malformed_bytes_are_refused_once(client: EchoClient) -> None:
    """An endless stream of malformed bytes gets one answer, and nothing fails."""
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, failure: failures.append(failure))
    for _ in range(10):
        client.send(b"\x00noise" * 20_000)
        await client.wait_until_received()

    assert (await client.rest()).count(b"HTTP/1.1 ") == 1
    assert not failures


async def test_a_head_without_end_is_refused(client: EchoClient) -> None:
    """An address and headers that go on and on are a 431, and the connection ends."""
    client.send(b"GET / HTTP/1.1\r\nhost: x\r\nx-long: " + b"a" * HEAD_BYTES_MAX)

    answered = await client.rest()

    assert answered.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert answered.endswith(b"head_too_large")


async def test_a_head_without_end_behind_a_request_is_refused(client: EchoClient) -> None:
    """What came before it in the same segment is not counted, but what comes after it is."""
    client.send(post("/a", b"1") + b"GET / HTTP/1.1\r\nhost: x\r\nx-long: ")
    await client.answer()
    client.send(b"a" * 4 * HEAD_BYTES_MAX)

    assert (await client.rest()).startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")


async def test_requests_before_a_head_are_not_counted_with_it(client: EchoClient) -> None:
    """A head that begins at the end of a large segment is a head like any other."""
    body = b"y" * (HEAD_BYTES_MAX // 2)
    head, end = b"GET /last HTTP/1.1\r\nHost:", b" x\r\n\r\n"
    client.send(post("/a", body) * 7 + head)
    answers = [await client.answer() for _ in range(7)]
    client.send(end)

    assert {answer[1] for answer in answers} == {b"/a " + body}
    assert (await client.answer())[1] == b"/last "


async def test_malformed_bytes_after_requests_are_refused_after_them(
    echo_server: EchoServer, client: EchoClient
) -> None:
    """The requests before it are answered in their order, then it is, and the connection ends."""
    client.send(get("/slow") + get("/a"))
    await client.wait_until_received()
    for _ in range(3):
        client.send(b"\x00\x00\x00")
        await client.wait_until_received()
    echo_server.application.let_go.set()
    answers = [await client.answer() for _ in range(3)]

    assert [answer[1] for answer in answers] == [b"slow", b"/a ", b"malformed_request"]
    assert [b"connection: close" in answer[0] for answer in answers] == [False, False, True]
    assert await client.rest() == b""


async def test_malformed_bytes_after_the_last_request_are_not_answered(client: EchoClient) -> None:
    """After `Connection: close` only one request is answered."""
    client.send(get("/a", b"Connection: close\r\n") + b"\x00")

    assert (await client.rest()).endswith(b"/a ")


async def test_malformed_bytes_in_a_body_that_is_answered_already_end_the_connection(
    client: EchoClient,
) -> None:
    """One request has one answer."""
    head = b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    client.send(head + b"20000\r\n" + b"x" * 0x20000)
    answered = await client.answer()
    client.send(b"noise")

    assert answered[1] == b"/a too large"
    assert await client.rest() == b""


@pytest.mark.parametrize("way", WAYS_TO_HANG_UP)
async def test_a_client_that_hangs_up_cancels_its_requests(
    echo_server: EchoServer, client: EchoClient, way: str
) -> None:
    """The request under way is canceled, and those behind it never begin."""
    client.send(get("/slow") + post("/never", b""))
    await client.wait_until_received()

    client.hang_up(way)

    async with asyncio.timeout(PATIENCE_SECONDS):
        await echo_server.application.canceled.wait()
    await until(lambda: not echo_server.state.connections and not echo_server.state.tasks)
    assert [request.path for request in echo_server.application.requests] == ["/slow"]


@pytest.mark.parametrize("way", WAYS_TO_HANG_UP)
async def test_a_client_that_hangs_up_while_the_server_reads_nothing_is_noticed(
    echo_server: EchoServer, client: EchoClient, way: str
) -> None:
    """It is noticed after the current answer, and the requests that were sent ahead never begin."""
    client.send(get("/slow") + post("/never", b"") * 10 * REQUESTS_WAITING_MAX)
    await until(lambda: echo_server.reading_pauses)

    client.hang_up(way)
    await until(lambda: has_hung_up(echo_server.accepted[0]))
    echo_server.application.let_go.set()

    await until(lambda: not echo_server.state.connections and not echo_server.state.tasks)
    assert [request.path for request in echo_server.application.requests] == ["/slow"]


async def test_the_server_waits_for_what_a_canceled_request_still_does(
    echo_server: EchoServer,
) -> None:
    """What must not be interrupted is finished, and until then the server knows of the task."""
    async with echo_server.connect() as client:
        client.send(get("/write"))
        await client.wait_until_received()
    await until(lambda: not echo_server.state.connections)
    assert len(echo_server.state.tasks) == 1

    echo_server.application.let_go.set()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await echo_server.application.written.wait()
    await until(lambda: not echo_server.state.tasks)


async def test_a_stream_that_nobody_reads_any_more_ends(
    echo_server: EchoServer, client: EchoClient
) -> None:
    """If the client hangs up in the middle of an answer, the rest is not produced."""
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    client.send(get("/stream"))
    await until(lambda: echo_server.writing_pauses)
    client.writer.transport.abort()

    await until(lambda: not echo_server.state.connections and not echo_server.state.tasks)
    assert echo_server.application.pieces_sent < STREAM_PIECES


async def test_an_idle_connection_is_closed(client: EchoClient, loop_time: LoopTime) -> None:
    """Some time after its last answer the server lets go of a connection."""
    client.send(post("/a", b""))
    await client.answer()
    loop_time.advance(IDLE_SECONDS)

    assert await client.rest() == b""


async def test_a_request_has_no_longer_to_arrive_than_a_connection_may_be_idle(
    echo_server: EchoServer, loop_time: LoopTime
) -> None:
    """A byte now and then does not keep a connection open: its request's start counts."""
    head, post_head = b"GET /b HTTP/1.1\r\nHost: x\r\nX: ", b"POST /a HTTP/1.1\r\nHost: x\r\n"
    slow = [
        (b"", b"\r\n"),
        (head, b"x"),
        (post_head + b"Content-Length: 999\r\n\r\n", b"x"),
        (post_head + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (post("/a", b"1"), b"\r\n"),
        (post("/a", b"1") + head, b"x"),
    ]
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(echo_server.connect()) for _ in slow]
        for client, (start, _) in zip(clients, slow, strict=True):
            client.send(start)
        await until(lambda: echo_server.bytes_received == sum(len(start) for start, _ in slow))
        await until(lambda: not echo_server.state.tasks)
        for _ in range(9):
            loop_time.advance(IDLE_SECONDS / 10)
            for client, (_, little) in zip(clients, slow, strict=True):
                client.send(little)
                await client.wait_until_received()
            assert len(echo_server.state.connections) == len(slow)

        loop_time.advance(IDLE_SECONDS / 10)

        await until(lambda: not echo_server.state.connections)


async def test_an_answer_under_way_keeps_the_connection(
    echo_server: EchoServer, client: EchoClient, loop_time: LoopTime
) -> None:
    """A request that takes longer than a connection may be idle is answered."""
    async with echo_server.connect() as idle:
        client.send(get("/slow"))
        await until(lambda: echo_server.application.requests)
        loop_time.advance(IDLE_SECONDS)
        assert await idle.rest() == b""
    echo_server.application.let_go.set()

    assert (await client.answer())[1] == b"slow"


async def test_a_client_that_reads_nothing_is_not_waited_for_longer_than_an_idle_one(
    echo_server: EchoServer, loop_time: LoopTime
) -> None:
    """An answer that the client does not read is dropped, even if the client goes on sending."""
    async with contextlib.AsyncExitStack() as stack:
        lines = []
        for requests in (
            get("/stream"),
            get("/large"),
            get("/large", b"Connection: close\r\n"),
            get("/large") * 2 * REQUESTS_WAITING_MAX,
            get("/large") + b"\x00",
        ):
            client = await stack.enter_async_context(echo_server.connect())
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            client.send(requests)
            lines.append(client)
        await until(lambda: echo_server.writing_pauses >= len(lines))

        def has_let_go() -> bool:
            loop_time.advance(IDLE_SECONDS / 4)
            for each in lines:
                if not each.writer.is_closing():
                    each.send(b"GET /more HTTP/1.1\r\n")
            return not echo_server.state.connections and not echo_server.state.tasks

        await until(has_let_go)


@pytest.mark.parametrize("path", ["/stream", "/large"])
async def test_a_server_that_stops_does_not_wait_for_a_client_that_reads_nothing(
    echo_server: EchoServer, loop_time: LoopTime, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """It has a limited time to read, from then on; a client that reads gets its whole answer."""
    monkeypatch.setattr(connection, "LINGER_SECONDS_MAX", IDLE_SECONDS / 4)
    async with echo_server.connect() as idle, echo_server.connect() as reading:
        for client in (idle, reading):
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            client.send(get(path))
        await until(lambda: echo_server.writing_pauses >= 2)
        loop_time.advance(IDLE_SECONDS / 2)
        for each in list(echo_server.state.connections):
            each.shutdown()
        reading.writer.transport.resume_reading()  # type: ignore[attr-defined]
        answered = await reading.rest()
        await until(lambda: len(echo_server.state.connections) == 1)
        loop_time.advance(IDLE_SECONDS / 4)

        assert len(answered) > PIECE_BYTES * STREAM_PIECES
        await until(lambda: not echo_server.state.connections)


async def test_a_server_that_stops_finishes_what_was_begun(
    echo_server: EchoServer, client: EchoClient
) -> None:
    """The answer under way goes out and says that it is the last; idle connections close."""
    async with echo_server.connect() as idle:
        client.send(get("/slow"))
        await until(lambda: echo_server.application.requests)
        for each in list(echo_server.state.connections):
            each.shutdown()
        echo_server.application.let_go.set()

        assert await idle.rest() == b""
    answered = await client.rest()
    assert b"\r\nconnection: close\r\n" in answered
    assert answered.endswith(b"slow")
