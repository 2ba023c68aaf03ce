"""Limits on headers and chunks: what is too much is refused early, and its cost is bounded."""

import pytest

from ousel.http.parser import CHUNKS_MAX, HEAD_BYTES_MAX, HEADERS_MAX, RequestParser
from tests.http.echo_server import EchoClient, EchoServer, get, post

CHUNKED = b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


def headers(count: int, *, same_name: bool) -> bytes:
    """Return lines of tiny headers, beside which a request still needs its Host."""
    return b"".join(b"a%d:\r\n" % (0 if same_name else number) for number in range(count))


def refusal_detail(server: EchoServer) -> str:
    """Return why the last request was refused."""
    refusal = server.application.requests[-1].refusal
    assert refusal is not None
    assert refusal.code == "head_too_large"
    return refusal.detail


@pytest.mark.parametrize("same_name", [True, False])
async def test_a_request_has_at_most_a_hundred_headers(
    echo_server: EchoServer, client: EchoClient, *, same_name: bool
) -> None:
    """A hundred are read; one more is a 431 that names the limit."""
    client.send(get("/a", headers(HEADERS_MAX - 1, same_name=same_name)))
    accepted = await client.answer()
    client.send(get("/b", headers(HEADERS_MAX, same_name=same_name)))

    assert accepted[1] == b"/a "
    assert (await client.rest()).startswith(b"HTTP/1.1 431 ")
    assert f"at most {HEADERS_MAX} headers" in refusal_detail(echo_server)


async def test_trailers_count_as_headers(echo_server: EchoServer, client: EchoClient) -> None:
    """A request whose headers and trailers are more than a hundred together is a 431."""
    few, many = (headers(count, same_name=False) for count in (HEADERS_MAX - 2, HEADERS_MAX - 1))
    client.send(CHUNKED + b"1\r\na\r\n0\r\n" + few + b"\r\n")
    accepted = await client.answer()
    client.send(CHUNKED + b"1\r\na\r\n0\r\n" + many + b"\r\n")

    assert accepted[1] == b"/a a"
    assert (await client.rest()).startswith(b"HTTP/1.1 431 ")
    assert f"at most {HEADERS_MAX} headers" in refusal_detail(echo_server)


async def test_headers_beyond_the_limit_are_not_parsed(
    echo_server: EchoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of tiny headers cost no more than a hundred."""
    parsed: list[bytes] = []
    on_header = RequestParser.on_header

    def record(parser: RequestParser, name: bytes, value: bytes) -> None:
        parsed.append(name)
        on_header(parser, name, value)

    monkeypatch.setattr(RequestParser, "on_header", record)
    async with echo_server.connect() as client:
        client.send(get("/a", headers(10_000, same_name=True)))
        assert (await client.rest()).startswith(b"HTTP/1.1 431 ")

    assert len(parsed) == HEADERS_MAX + 1


@pytest.mark.parametrize("before", [b"", post("/before", b"1")])
@pytest.mark.parametrize("pad", [b"x-long: %b\r\n", b"x-two: 1\r\nx-two: %b\r\n"])
async def test_a_head_in_one_segment_has_the_same_limit(
    echo_server: EchoServer, client: EchoClient, before: bytes, pad: bytes
) -> None:
    """A head that ends in the segment in which it began is measured all the same."""
    url_and_host = len("/a") + len("Host: x\r\n")
    room = HEAD_BYTES_MAX - url_and_host - len(pad % b"")
    client.send(before + get("/a", pad % (b"a" * room)))
    if before:
        await client.answer()
    accepted = await client.answer()
    client.send(before + get("/b", pad % (b"a" * (room + 1))))
    if before:
        await client.answer()

    assert accepted[1] == b"/a "
    assert (await client.rest()).startswith(b"HTTP/1.1 431 ")
    assert str(HEAD_BYTES_MAX) in refusal_detail(echo_server)


async def test_a_large_head_may_be_followed_by_a_large_body(client: EchoClient) -> None:
    """The body does not count, even if it arrives in the same segment."""
    half = b"x" * (HEAD_BYTES_MAX // 2 + 1_000)
    head = b"POST /a HTTP/1.1\r\nHost: x\r\nX-Long: %b\r\nContent-Length: %d\r\n\r\n"
    client.send((head % (half, len(half)) + half) * 2)

    assert [(await client.answer())[1] for _ in range(2)] == [b"/a " + half] * 2


@pytest.mark.parametrize("cut", [1_000, 1_000_000])
async def test_a_body_has_a_limited_number_of_chunks(
    echo_server: EchoServer, client: EchoClient, cut: int
) -> None:
    """A body may come in tiny chunks, but more than so many are a 431 that names the limit."""
    chunks = b"1\r\na\r\n" * CHUNKS_MAX
    for start in range(0, len(chunks), cut):
        client.send((b"" if start else CHUNKED) + chunks[start : start + cut])
        await client.wait_until_received()
    client.send(b"0\r\n\r\n")
    accepted = await client.answer()
    client.send(CHUNKED + chunks + b"1\r\na\r\n0\r\n\r\n")

    assert accepted[1] == b"/a " + b"a" * CHUNKS_MAX
    assert (await client.rest()).startswith(b"HTTP/1.1 431 ")
    assert f"at most {CHUNKS_MAX} chunks" in refusal_detail(echo_server)


async def test_a_body_that_is_too_large_has_a_limited_number_of_chunks_too(
    client: EchoClient,
) -> None:
    """A body that was refused for its size ends the connection if its chunks do not end."""
    many = b"1\r\na\r\n" * (CHUNKS_MAX + 1)
    client.send(CHUNKED + b"20000\r\n%b\r\n" % (b"x" * 0x20000) + many)

    answered = await client.rest()

    assert answered.endswith(b"/a too large")
    assert answered.count(b"HTTP/1.1 ") == 1
