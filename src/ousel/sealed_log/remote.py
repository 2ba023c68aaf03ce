"""Requests to other servers: the public files of a log, and the services of witnesses."""

from collections.abc import Callable, Iterable
from functools import cache
from http.client import HTTPException
from time import monotonic
from typing import Final
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

from ousel.sealed_log.merkle import HASH_BYTES, Node
from ousel.sealed_log.notes import NOTE_BYTES_MAX
from ousel.sealed_log.tiles import TILE_WIDTH, Tile, TileHashes, tile_of_size, tiles_with

REQUEST_SECONDS_MAX: Final = 10.0  # until something arrives
ANSWER_SECONDS_MAX: Final = 10.0  # until all has arrived


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
        reason = error.reason if isinstance(error, URLError) else error
        raise RemoteUnreachable(f"no complete answer from {url}: {reason}") from None


@cache
def _opener() -> OpenerDirector:
    """Return the object that sends requests. It treats a redirect like any other answer.

    If it followed redirects, a witness or a log could send us to any address, and the limits on
    time and size would not apply to the redirect itself.
    """
    opener = OpenerDirector()
    for handler in (ProxyHandler, HTTPHandler, HTTPSHandler, HTTPDefaultErrorHandler):
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
    """Return the content of an answer, unless it arrives too slowly."""
    deadline = monotonic() + ANSWER_SECONDS_MAX
    content = b""
    while len(content) < NOTE_BYTES_MAX and (piece := read_some(NOTE_BYTES_MAX - len(content))):
        content += piece
        if monotonic() > deadline:
            raise TimeoutError("it takes too long")
    return content


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
        keys = tiles_with(nodes)
        tiles = [tile for key in sorted(keys, key=_order) if (tile := tile_of_size(key, size))]
        return TileHashes({tile.key: self._tile(tile) for tile in tiles})

    def _tile(self, tile: Tile) -> bytes:
        content = self._get(f"tile/{tile.address}", msgspec.structs.replace(tile, width=TILE_WIDTH))
        if len(content) < tile.width * HASH_BYTES:
            raise RemoteUnreachable(f"the tile {tile.address} of {self._url} is too short")
        return content

    def _get(self, path: str, full_tile: Tile | None = None) -> bytes:
        """Return a file. A log may drop a partial tile once the tile is full."""
        answer = request(f"{self._url}/{path}")
        if answer.status == 404 and full_tile is not None:  # noqa: PLR2004
            answer = request(f"{self._url}/tile/{full_tile.address}")
        if answer.status != 200:  # noqa: PLR2004
            raise RemoteUnreachable(f"{self._url}/{path} answers with status {answer.status}")
        return answer.content


def _order(key: object) -> tuple[object, ...]:
    return msgspec.structs.astuple(key)  # type: ignore[arg-type]
