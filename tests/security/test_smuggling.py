"""No request smuggling: a request that two parsers could read differently is refused."""

import pytest

from tests.http.echo_server import EchoServer, get, post

HEAD = b"POST /a HTTP/1.1\r\nHost: x\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n"
LAST = b"\r\n0\r\n\r\n"
HIDDEN = get("/hidden")
UNCLEAR = (
    HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n" + LAST + HIDDEN,
    CHUNKED + b"Content-Length: 5\r\n" + LAST + HIDDEN,
    HEAD + b"Transfer-Encoding: xchunked\r\n" + LAST,
    CHUNKED + b"Transfer-Encoding: identity\r\n" + LAST,
    CHUNKED + b"Transfer-Encoding: chunked\r\n" + LAST,
    HEAD + b"Transfer-Encoding: chunked, identity\r\n" + LAST,
    HEAD + b"Transfer-Encoding: gzip, chunked\r\n" + LAST,
    HEAD + b"Transfer-Encoding : chunked\r\n" + LAST,
    HEAD + b" Transfer-Encoding: chunked\r\n" + LAST,
    HEAD + b"Content-Length: +3\r\n\r\nabc",
    HEAD + b"Content-Length: 0x3\r\n\r\nabc",
    HEAD + b"Content-Length: 3, 3\r\n\r\nabc",
    HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    HEAD + b"Content-Length: 3\r\nContent-Length: 30\r\n\r\nabc" + HIDDEN,
    HEAD + b"X-Folded: a\r\n b\r\n\r\n",
    HEAD + b"X-Bare: a\nX-Other: b\r\n\r\n",
    HEAD + b"X-Bare: a\rX-Other: b\r\n\r\n",
    b"GET /a HTTP/1.1\nHost: x\n\n",
    CHUNKED + b"\r\n1\na\r\n0\r\n\r\n",
    CHUNKED + b"\r\n1 \r\na\r\n0\r\n\r\n",
    CHUNKED + b"\r\n-1\r\na\r\n0\r\n\r\n",
    CHUNKED + b"\r\n1\r\nab\r\n0\r\n\r\n",
    CHUNKED + b"\r\nfffffffffffffffff\r\na\r\n0\r\n\r\n",
    CHUNKED + b"\r\n1\r\na\r\n0\r\nContent-Length: 30\r\n\r\n" + HIDDEN,
    CHUNKED + b"\r\n1\r\na\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n" + HIDDEN,
)
CLEAR = (
    (post("/a", HIDDEN) + post("/b", b"1"), [("/a", HIDDEN), ("/b", b"1")]),
    (
        CHUNKED + b"\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN) + post("/b", b"1"),
        [("/a", HIDDEN), ("/b", b"1")],
    ),
    (
        CHUNKED
        + b"\r\n1\r\na\r\n0\r\nConnection: upgrade\r\nUpgrade: y\r\n\r\n"
        + post("/b", b"1"),
        [("/a", b"a"), ("/b", b"1")],
    ),
    (
        HEAD
        + b"Connection: upgrade\r\nUpgrade: y\r\nContent-Length: %d\r\n\r\n" % len(HIDDEN)
        + HIDDEN
        + post("/b", b"1"),
        [("/a", HIDDEN), ("/b", b"1")],
    ),
    (b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + HIDDEN, [("/a", b"")]),
    (get("/a", b"Connection: close\r\n") + HIDDEN, [("/a", b"")]),
)


@pytest.mark.parametrize("octets", UNCLEAR)
async def test_what_could_be_read_in_two_ways_is_refused(octets: bytes) -> None:
    """The lengths of a body, its chunks and the ends of lines have one form; nothing follows."""
    echo_server = EchoServer()
    async with echo_server.running(), echo_server.connect() as client:
        client.send(octets)
        answered = await client.rest()

    assert answered.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert answered.count(b"HTTP/1.1 ") == 1
    assert [request.path for request in echo_server.application.requests] == [""]


@pytest.mark.parametrize(("octets", "expected"), CLEAR)
@pytest.mark.parametrize("cut", [1, 50, 10_000])
async def test_a_body_stays_a_body(
    octets: bytes, expected: list[tuple[str, bytes]], cut: int
) -> None:
    """A body, or what follows the last request, is never parsed as a request."""
    echo_server = EchoServer()
    async with echo_server.running(), echo_server.connect() as client:
        for start in range(0, len(octets), cut):
            client.send(octets[start : start + cut])
            await client.writer.drain()
        answers = [(await client.answer())[1] for _ in expected]
        client.writer.write_eof()
        rest = await client.rest()

    assert answers == [path.encode() + b" " + body for path, body in expected]
    assert rest == b""
    read = [(request.path, request.body) for request in echo_server.application.requests]
    assert read == expected
