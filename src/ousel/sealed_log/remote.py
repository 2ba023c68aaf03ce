"""Requests to other servers: the public files of a log, and the services of witnesses."""

import io
import socket
import ssl
from collections.abc import Callable, Iterable
from functools import cache
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from time import monotonic
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

import msgspec
from typing_extensions import override

from ousel.sealed_log.merkle import HASH_BYTES, Node
from ousel.sealed_log.notes import NOTE_BYTES_MAX
from ousel.sealed_log.tiles import TILE_WIDTH, Tile, TileHashes, tile_of_size, tiles_with

REQUEST_SECONDS_MAX: Final = 10.0  # until something arrives
ANSWER_SECONDS_MAX: Final = 20.0  # until all has arrived, from the status line to the last byte
REASON_CHARACTERS_MAX: Final = 200  # a server may choose them


class RemoteUnreachable(Exception):
    """A server gives no complete answer, or its answer is not what was asked for."""


class RemoteAnswer(msgspec.Struct, frozen=True):
    """The answer of another server."""

    status: int
    content: bytes


def is_http_address(url: str) -> bool:
    """Return whether this is an http or https address."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def request(url: str, body: bytes | None = None) -> RemoteAnswer:
    """Return the answer to a GET request, or to a POST request if there is a body."""
    if not is_http_address(url):
        raise RemoteUnreachable(f"{url} is not an http or https address")
    outgoing = Request(url, data=body, headers={"User-Agent": "ousel"})  # noqa: S310
    try:
        return _answer(outgoing)
    except (URLError, HTTPException, OSError, ValueError) as error:
        reason = str(error.reason if isinstance(error, URLError) else error)[:REASON_CHARACTERS_MAX]
        raise RemoteUnreachable(f"no complete answer from {url}: {reason}") from None


@cache
def _opener() -> OpenerDirector:
    """Return the object that sends requests. It treats a redirect like any other answer.

    If it followed redirects, a witness or a log could send us to any address, and the limits on
    time and size would not apply to the redirect itself.
    """
    opener = OpenerDirector()
    for handler in (ProxyHandler, _HttpHandler, _HttpsHandler, HTTPDefaultErrorHandler):
        opener.add_handler(handler())
    opener.add_handler(HTTPErrorProcessor())
    return opener


def _answer(outgoing: Request) -> RemoteAnswer:
    try:
        with _opener().open(outgoing, timeout=REQUEST_SECONDS_MAX) as answer:
            return RemoteAnswer(answer.status, _read(answer.read1))
    except HTTPError as error:
        with error:
            return RemoteAnswer(error.code, _read(error.read1))


def _read(read_some: Callable[[int], bytes]) -> bytes:
    """Return the content of an answer."""
    content = b""
    while len(content) < NOTE_BYTES_MAX and (piece := read_some(NOTE_BYTES_MAX - len(content))):
        content += piece
    return content


class _TimedReader(io.RawIOBase):
    """Reads an answer from a socket, unless it arrives too slowly.

    The timeout of a socket is not enough: it starts again with each byte that arrives.
    """

    def __init__(self, connected: socket.socket, raw: io.RawIOBase) -> None:
        self._socket = connected
        self._raw = raw
        self._deadline = monotonic() + ANSWER_SECONDS_MAX

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Any) -> int | None:
        seconds_left = self._deadline - monotonic()
        if seconds_left <= 0:
            raise TimeoutError("it takes too long")
        self._socket.settimeout(min(seconds_left, REQUEST_SECONDS_MAX))
        return self._raw.readinto(buffer)

    @override
    def close(self) -> None:
        self._raw.close()
        super().close()


class _TimedResponse(HTTPResponse):
    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_TimedReader(sock, self.fp.detach()))


class _HttpConnection(HTTPConnection):
    response_class = _TimedResponse


class _HttpsConnection(HTTPSConnection):
    response_class = _TimedResponse


class _HttpHandler(HTTPHandler):
    @override
    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_HttpConnection, req)


class _HttpsHandler(HTTPSHandler):
    def __init__(self) -> None:
        self._tls = ssl.create_default_context()  # once, since it loads all certificates
        super().__init__(context=self._tls)

    @override
    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_HttpsConnection, req, context=self._tls)


class RemoteLog:
    """The public files of a log, at its address."""

    def __init__(self, url: str) -> None:
        """Read the log at this address, which ends in /log for an Ousel server."""
        self._url = url.rstrip("/")

    def checkpoint(self) -> str:
        """Return the newest checkpoint, unverified."""
        return self._get("checkpoint").decode("utf-8", "replace")

    def hashes(self, nodes: Iterable[Node], size: int) -> TileHashes:
        """Return the hashes of these nodes in a log of this size, unverified."""
        keys = sorted(tiles_with(nodes), key=lambda key: (key.level, key.index))
        tiles = [tile for key in keys if (tile := tile_of_size(key, size))]
        return TileHashes({tile.key: self._tile(tile) for tile in tiles})

    def _tile(self, tile: Tile) -> bytes:
        content = self._get(f"tile/{tile.address}", msgspec.structs.replace(tile, width=TILE_WIDTH))
        if len(content) < tile.width * HASH_BYTES:
            raise RemoteUnreachable(f"the tile {tile.address} of {self._url} is too short")
        return content

    def _get(self, path: str, full_tile: Tile | None = None) -> bytes:
        """Return a file. A log may drop a partial tile once the tile is full."""
        answer = request(f"{self._url}/{path}")
        if answer.status == HTTPStatus.NOT_FOUND and full_tile is not None:
            answer = request(f"{self._url}/tile/{full_tile.address}")
        if answer.status != HTTPStatus.OK:
            raise RemoteUnreachable(f"{self._url}/{path} answers with status {answer.status}")
        return answer.content
