"""A connection: requests are answered in their order, however their bytes arrive."""

import asyncio

import pytest

from ousel.http.connection import REQUESTS_WAITING_MAX
from ousel.http.messages import Request
from ousel.kernel.deadlines import NO_DEADLINE
from tests.http.echo_server import (
    PATIENCE_SECONDS,
    PIECE_BYTES,
    STREAM_PIECES,
    EchoClient,
    EchoServer,
    get,
    post,
)
from tests.support.waiting import until

OFFER = b"POST %b HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, x\r\nUpgrade: h2c\r\n%b\r\n\r\n"


async def test_an_answer_has_the_servers_headers_and_its_own(client: EchoClient) -> None:
    """The head is the status, what the server adds, and what the application gave."""
    client.send(post("/a", b"hello"))

    assert await client.answer() == (
        b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-length: 8\r\n\r\n",
        b"/a hello",
    )


async def test_a_request_may_arrive_byte_by_byte(client: EchoClient) -> None:
    """A request may arrive in any pieces."""
    for byte in post("/cut?q=1", b"hello"):
        client.send(bytes([byte]))
        await client.wait_until_received()

    assert (await client.answer())[1] == b"/cut hello"


async def test_the_application_sees_the_request_as_it_was_sent(
    echo_server: EchoServer, client: EchoClient
) -> None:
    """Names of headers in lower case, one that comes twice as a list; the query apart."""
    client.send(b"GET /a%20b?c=%20d HTTP/1.1\r\nHOST: x\r\nX-Two: 1\r\nX-Two: 2\r\n\r\n")
    await client.answer()

    [request] = echo_server.application.requests
    assert request == Request(
        method="GET",
        path="/a%20b",
        query=b"c=%20d",
        headers={b"host": b"x", b"x-two": b"1, 2"},
        body=b"",
        ip_address="127.0.0.1",
        arrived_at=request.arrived_at,
    )


async def test_space_around_a_value_is_not_a_part_of_it(
    echo_server: EchoServer, client: EchoClient
) -> None:
    """Spaces and tabs at either end are optional, those within are not (RFC 9110, section 5.5)."""
    client.send(get("/a", b"Spaced:  \t a \tb \t \r\nEmpty: \t\r\nTwo: 1 \r\nTwo:\t2 \r\n"))
    await client.answer()

    [request] = echo_server.application.requests
    headers = {b"spaced": b"a \tb", b"empty": b"", b"two": b"1, 2"}
    assert request.headers == {b"host": b"x"} | headers


@pytest.mark.parametrize("address", [b"http://elsewhere", b"http://elsewhere?b"])
async def test_a_whole_address_may_have_no_path(
    echo_server: EchoServer, client: EchoClient, address: bytes
) -> None:
    """An empty path is that of the root (RFC 9110, section 4.2.3)."""
    client.send(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % address)
    await client.answer()

    [request] = echo_server.application.requests
    assert (request.path, request.query) == ("/", address.partition(b"?")[2])


@pytest.mark.parametrize("address", [b"http://elsewhere/a?b#c", b"/a?b"])
async def test_an_address_may_be_whole(
    echo_server: EchoServer, client: EchoClient, address: bytes
) -> None:
    """As a proxy is sent it: what counts is the path and the query."""
    client.send(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % address)
    await client.answer()

    assert (
        echo_server.application.requests[0].path,
        echo_server.application.requests[0].query,
    ) == ("/a", b"b")


async def test_requests_sent_ahead_are_answered_in_their_order(
    echo_server: EchoServer, client: EchoClient
) -> None:
    """The second waits until the first is answered, even if it would be quicker."""
    client.send(get("/slow") + post("/b", b"1") + post("/c", b"2"))
    await client.wait_until_received()
    assert len(echo_server.application.requests) == 1
    echo_server.application.let_go.set()

    assert [(await client.answer())[1] for _ in range(3)] == [b"slow", b"/b 1", b"/c 2"]


async def test_a_request_does_not_inherit_a_deadline(
    echo_server: EchoServer, client: EchoClient
) -> None:
    """Not even that of the request before it, behind which it has waited."""
    client.send(get("/a") + get("/b"))
    await client.answer()
    await client.answer()

    assert echo_server.application.deadlines == [NO_DEADLINE, NO_DEADLINE]


async def test_many_requests_sent_ahead_are_all_answered(
    echo_server: EchoServer, client: EchoClient
) -> None:
    """While as many wait as may wait, the server reads no further, and it loses nothing."""
    count = REQUESTS_WAITING_MAX * 100
    client.send(get("/slow"))
    client.send(b"".join(post(f"/{number}", b"x" * 1000) for number in range(count)))
    await until(lambda: echo_server.reading_pauses)
    echo_server.application.let_go.set()
    await client.answer()

    for number in range(count):
        assert (await client.answer())[1].startswith(b"/%d x" % number)
    assert 0 < echo_server.waiting_when_read < REQUESTS_WAITING_MAX


async def test_a_head_request_gets_the_head_alone(client: EchoClient) -> None:
    """The answer has the length but no body, and the connection goes on."""
    client.send(b"HEAD /four HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(PATIENCE_SECONDS):
        head = await client.reader.readuntil(b"\r\n\r\n")
    client.send(post("/next", b""))

    assert b"content-length: 6\r\n" in head
    assert (await client.answer())[1] == b"/next "


async def test_no_content_has_no_body_and_no_length(client: EchoClient) -> None:
    """A 204 ends with its head."""
    client.send(get("/nothing", b"Connection: close\r\n"))

    answered = await client.rest()

    assert answered.startswith(b"HTTP/1.1 204 No Content\r\n")
    assert b"transfer-encoding" not in answered
    assert answered.endswith(b"\r\n\r\n")


async def test_a_stream_waits_for_a_slow_reader(
    echo_server: EchoServer, client: EchoClient
) -> None:
    """The stream pauses while the client does not read; in the end the client has it all."""
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    client.send(get("/stream", b"Connection: close\r\n"))
    await until(lambda: echo_server.writing_pauses)
    produced = echo_server.application.pieces_sent
    client.writer.transport.resume_reading()  # type: ignore[attr-defined]

    answered = await client.rest()

    assert produced < STREAM_PIECES
    assert b"transfer-encoding: chunked\r\n" in answered
    assert answered.count(b"s") >= STREAM_PIECES * PIECE_BYTES
    assert answered.endswith(b"\r\n0\r\n\r\n")


@pytest.mark.parametrize("header", [b"", b"Connection: keep-alive\r\n"])
async def test_a_stream_to_an_old_client_lasts_until_the_connection_closes(
    client: EchoClient, header: bytes
) -> None:
    """HTTP/1.0 knows no chunks: the end of the connection is the end of the answer."""
    client.send(b"GET /stream HTTP/1.0\r\n%b\r\n" % header)

    head, _, body = (await client.rest()).partition(b"\r\n\r\n")

    assert head == b"HTTP/1.1 200 OK\r\ndate: today\r\nconnection: close"
    assert body == b"s" * PIECE_BYTES * STREAM_PIECES


async def test_a_stream_that_breaks_off_does_not_look_whole(client: EchoClient) -> None:
    """The connection ends without the last chunk, by which a client knows."""
    client.send(get("/torn"))

    answered = await client.rest()

    assert answered.endswith(b"4\r\nhalf\r\n")


@pytest.mark.parametrize("cut", [1, 7, 70, 10_000])
async def test_an_upgrade_header_is_ignored(
    echo_server: EchoServer, client: EchoClient, cut: int
) -> None:
    """An upgrade is never taken up: the request is answered with its body, and those after it."""
    length, chunks = b"Content-Length: 5", b"Transfer-Encoding: chunked"
    data = (
        OFFER % (b"/a", b"X-Own: 1")
        + OFFER % (b"/b?c", length)
        + b"hello"
        + OFFER % (b"/d", chunks)
        + b"5\r\nhello\r\n0\r\n\r\n"
        + post("/e", b"2")
    )
    for start in range(0, len(data), cut):
        client.send(data[start : start + cut])
        await client.wait_until_received()

    answers = [(await client.answer())[1] for _ in range(4)]
    assert answers == [b"/a ", b"/b hello", b"/d hello", b"/e 2"]
    first = echo_server.application.requests[0]
    assert first.headers == {b"host": b"x", b"connection": b"Upgrade, x", b"x-own": b"1"}


@pytest.mark.parametrize(
    "head",
    [
        b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: close, Upgrade\r\nUpgrade: h2c\r\n\r\n",
        b"GET /a HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    ],
    ids=["close", "1.0"],
)
async def test_an_upgrade_header_of_a_last_request_is_ignored(
    client: EchoClient, head: bytes
) -> None:
    """It is answered as any other, and then the connection is closed."""
    client.send(head)
    answered, body = await client.answer()
    assert body == b"/a "
    assert b"connection: close" in answered


async def test_repeated_headers_become_one(echo_server: EchoServer, client: EchoClient) -> None:
    """A list, except cookies, which are separated as a browser separates them."""
    client.send(b"GET /a HTTP/1.1\r\nHost: x\r\nCookie: a=1\r\nX: 1\r\nCookie: b=2\r\nX: 2\r\n\r\n")
    await client.answer()

    (request,) = echo_server.application.requests
    assert (request.headers[b"cookie"], request.headers[b"x"]) == (b"a=1; b=2", b"1, 2")


async def test_many_upgrade_headers_are_ignored(client: EchoClient) -> None:
    """Each one costs no more than a request, even if many come in one segment."""
    count = 2_000
    client.send(b"".join(OFFER % (b"/%d" % number, b"X-Own: 1") for number in range(count)))

    answers = [(await client.answer())[1] for _ in range(count)]
    assert answers == [b"/%d " % number for number in range(count)]


async def test_the_request_after_an_upgrade_header_is_read_to_its_end(
    echo_server: EchoServer, client: EchoClient
) -> None:
    """A request that is cut in two stays one: its second half is never another request."""
    client.send(OFFER % (b"/a", b"X-Own: 1") + b"POST /b HTTP/1.1\r\nHost: x\r\nX-Own: ")
    await client.answer()
    client.send(b"GET /smuggled HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
    await client.answer()

    assert [request.path for request in echo_server.application.requests] == ["/a", "/b"]


@pytest.mark.parametrize("path", ["/broken", "/split"])
async def test_an_application_that_fails_is_a_500(client: EchoClient, path: str) -> None:
    """A failing application gets a 500, and a line break in a header is never sent."""
    client.send(get(path))

    answered = await client.rest()

    assert answered.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert b"x-other" not in answered
