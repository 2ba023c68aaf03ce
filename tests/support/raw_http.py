"""Raw HTTP, for requests that no ordinary client would send."""

import asyncio
import contextlib
from collections.abc import Iterable

import httpx2

ANSWER_SECONDS_MAX = 20.0


async def exchange(
    port: int,
    *pieces: bytes,
    pause_seconds: float = 0.0,
    seconds_max: float = ANSWER_SECONDS_MAX,
) -> httpx2.Response:
    """Send the pieces, and return the answer; the request must have `Connection: close`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        with contextlib.suppress(ConnectionError):  # an answer may come before the last piece
            await _written(writer, pieces, pause_seconds)
        octets = await asyncio.wait_for(_read(reader), seconds_max)
    finally:
        writer.close()
    return _parsed(octets)


async def cut_off(port: int, octets: bytes, after_seconds: float = 0.0) -> None:
    """Send the first part of a request, and close the connection after a pause."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    await _written(writer, [octets], after_seconds)
    writer.close()
    await writer.wait_closed()


def request(
    method: str, target: str | bytes, headers: Iterable[tuple[str, str]], body: bytes = b""
) -> bytes:
    """Return the bytes of a request, valid or not."""
    raw_target = target if isinstance(target, bytes) else target.encode()
    lines = [
        method.encode() + b" " + raw_target + b" HTTP/1.1",
        b"Host: 127.0.0.1",
        b"Connection: close",
        *(f"{name}: {value}".encode("latin-1") for name, value in headers),
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def chunked(*chunks: bytes) -> bytes:
    """Return a chunked body with its last chunk."""
    pieces = [b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks]
    return b"".join(pieces) + b"0\r\n\r\n"


async def _written(
    writer: asyncio.StreamWriter, pieces: Iterable[bytes], pause_seconds: float
) -> None:
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(pause_seconds)


async def _read(reader: asyncio.StreamReader) -> bytes:
    octets = b""
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(65536):
            octets += piece
    return octets


def _parsed(octets: bytes) -> httpx2.Response:
    head, _, body = octets.partition(b"\r\n\r\n")
    status_line, *lines = head.split(b"\r\n")
    headers = [(name, value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
    return httpx2.Response(int(status_line.split()[1]), headers=headers, content=body)
