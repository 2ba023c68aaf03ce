"""Bodies on a connection: read completely, with limits on size and time."""

import asyncio

import pytest

from ousel.http.messages import BODY_BYTES_MAX
from ousel.http.parser import HEAD_BYTES_MAX
from tests.http.echo_server import (
    IDLE_SECONDS,
    PATIENCE_SECONDS,
    PIECE_BYTES,
    EchoClient,
    EchoServer,
    post,
)
from tests.support.loop_time import LoopTime

BIG_BYTES = 2 * 1024 * 1024
ENDLESS_BYTES = 4 * HEAD_BYTES_MAX


async def test_a_body_may_come_in_chunks(client: EchoClient) -> None:
    """A request without a length is read to its last chunk."""
    client.send(b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
    await client.wait_until_received()
    client.send(b"2\r\nde\r\n0\r\n\r\n")

    assert (await client.answer())[1] == b"/a abcde"


async def test_what_follows_the_last_chunk_is_no_header(
    echo_server: EchoServer, client: EchoClient
) -> None:
    """A trailer adds no credential or address, and changes no header that was sent before it."""
    head = b"POST /a HTTP/1.1\r\nHost: x\r\nX-Own: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
    trailers = b"Authorization: Bearer key\r\nX-Own: 2\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n"
    client.send(head + b"3\r\nabc\r\n0\r\n" + trailers + post("/b", b"1"))

    assert [(await client.answer())[1] for _ in range(2)] == [b"/a abc", b"/b 1"]
    first, second = (request.headers for request in echo_server.application.requests)
    assert first == {b"host": b"x", b"x-own": b"1", b"transfer-encoding": b"chunked"}
    assert second == {b"host": b"x", b"content-length": b"1"}


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"0\r\nx-long: ", b"a" * 1000),
        (b"0\r\n", b"x-many: " + b"a" * 1000 + b"\r\n"),
        (b"1;x=", b"a" * 1000),
        (b"", b"1;x=" + b"a" * 1000 + b"\r\na\r\n"),
    ],
)
@pytest.mark.parametrize("before", [b"", post("/before", b"1")])
async def test_endless_chunk_extensions_and_trailers_are_refused(
    echo_server: EchoServer, client: EchoClient, before: bytes, start: bytes, more: bytes
) -> None:
    """Trailers and what may stand beside a chunk's size count as the head does: a 431."""
    head = b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    client.send(before + head + start)
    if before:
        await client.answer()
    for _ in range(ENDLESS_BYTES // 1000):
        client.send(more)

    assert (await client.rest()).startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert "/a" not in [request.path for request in echo_server.application.requests]


async def test_trailers_of_a_rejected_body_are_limited(
    client: EchoClient,
) -> None:
    """A body that was answered as too large is given up where its trailers never end."""
    chunk = b"8000\r\n%b\r\n" % (b"x" * 0x8000)
    client.send(b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk * 9)
    first = await client.answer()
    client.send(b"0\r\nx-long: " + b"a" * ENDLESS_BYTES)

    assert first[1] == b"/a too large"
    assert await client.rest() == b""


async def test_chunk_data_is_not_counted_as_overhead(client: EchoClient) -> None:
    """The largest body in middling chunks is far from the limit of a head."""
    chunk = b"400;x=y\r\n%b\r\n" % (b"x" * 0x400)
    head = b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    for piece in (head, *[chunk] * (BODY_BYTES_MAX // 0x400), b"0\r\n\r\n"):
        client.send(piece)
        await client.wait_until_received()

    assert (await client.answer())[1] == b"/a " + b"x" * BODY_BYTES_MAX


async def test_expect_100_continue_is_answered(client: EchoClient) -> None:
    """`Expect: 100-continue` is answered at once."""
    client.send(b"POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.send(b"ok")

    assert (await client.answer())[1] == b"/a ok"


async def test_100_continue_is_sent_after_the_answer_under_way(
    echo_server: EchoServer, client: EchoClient
) -> None:
    """`100 Continue` never stands inside an answer, and comes before the next one."""
    client.send(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n" + post("/b", b"1"))
    client.send(b"POST /c HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n")
    await client.wait_until_received()
    echo_server.application.let_go.set()
    before = [(await client.answer())[1] for _ in range(2)]
    async with asyncio.timeout(PATIENCE_SECONDS):
        between = await client.reader.readuntil(b"\r\n\r\n")
    client.send(b"ok")

    assert before == [b"slow", b"/b 1"]
    assert between == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert (await client.answer())[1] == b"/c ok"


async def test_100_continue_is_not_sent_if_the_body_has_begun(
    echo_server: EchoServer, client: EchoClient
) -> None:
    """If the body has begun to arrive, no `100 Continue` is sent."""
    client.send(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
    client.send(
        b"POST /c HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\no"
    )
    await client.wait_until_received()
    echo_server.application.let_go.set()
    first = await client.answer()
    client.send(b"k")

    assert [first[1], (await client.answer())[1]] == [b"slow", b"/c ok"]


async def test_http_1_0_gets_no_100_continue(client: EchoClient) -> None:
    """HTTP/1.0 knows no `100 Continue` (RFC 9110, section 10.1.1)."""
    client.send(b"POST /a HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    await client.wait_until_received()
    client.send(b"ok")

    assert (await client.rest()).startswith(b"HTTP/1.1 200 OK\r\n")


async def test_a_client_that_asks_to_send_too_much_is_told_at_once(client: EchoClient) -> None:
    """The body is not asked for, and not waited for."""
    length = BODY_BYTES_MAX + 1
    client.send(
        b"POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
        % length
    )

    assert (await client.answer())[1] == b"/a too large"


async def test_a_body_of_the_largest_size_arrives_whole(client: EchoClient) -> None:
    """A body of exactly the maximum size is accepted."""
    body = b"y" * BODY_BYTES_MAX
    client.send(post("/a", body))

    assert (await client.answer())[1] == b"/a " + body


async def test_a_body_that_is_too_large_is_passed_over(client: EchoClient) -> None:
    """It is refused before it has arrived; the next request is still found."""
    client.send(post("/a", b"x" * BIG_BYTES) + post("/next", b"1"))

    assert [(await client.answer())[1] for _ in range(2)] == [b"/a too large", b"/next 1"]


async def test_chunks_that_add_up_to_too_much_are_passed_over(client: EchoClient) -> None:
    """A body without a length has the same limit as one with a length."""
    chunk = b"8000\r\n%b\r\n" % (b"x" * 0x8000)
    client.send(b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk * 9)
    first = await client.answer()
    client.send(b"0\r\n\r\n" + post("/next", b"1"))

    assert [first[1], (await client.answer())[1]] == [b"/a too large", b"/next 1"]


async def test_a_client_that_goes_on_sending_reads_its_answer_all_the_same(
    client: EchoClient,
) -> None:
    """The connection is closed to it only when it has had time to read: a reset would lose it."""
    client.send(
        b"POST /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
        % BIG_BYTES
    )
    answered = await client.answer()
    for _ in range(20):
        client.send(b"x" * PIECE_BYTES)
        await client.wait_until_received()

    assert answered[1] == b"/a too large"
    assert await client.rest() == b""


@pytest.mark.parametrize("body", [b"zz\r\n", b"3\r\nabc\r\nzz\r\n", b"3\r\nabcd\r\n"])
async def test_a_body_with_malformed_chunks_is_refused(
    echo_server: EchoServer, client: EchoClient, body: bytes
) -> None:
    """Chunks that cannot be read are a 400, and the application never hears of them."""
    client.send(b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    await client.wait_until_received()
    client.send(body)

    assert (await client.rest()).startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert [request.path for request in echo_server.application.requests] == [""]


async def test_a_body_that_does_not_come_is_not_waited_for_longer_than_for_a_request(
    echo_server: EchoServer, client: EchoClient, loop_time: LoopTime
) -> None:
    """A client that does not send the rest of its request is closed like an idle one."""
    client.send(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc")
    await client.wait_until_received()
    loop_time.advance(IDLE_SECONDS)

    assert await client.rest() == b""
    assert not echo_server.application.requests
