"""The public files of the log, as in C2SP tlog-tiles: its checkpoint, its key and its tiles.

The specification also has bundles of entries, the data under each leaf. Ousel does not publish
them, because they would show every movement to everyone.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from ousel.api.route import Call, NoBody, NoQuery, Route
from ousel.http.messages import Answer
from ousel.http.refusals import NotFound
from ousel.sealed_log.keys import LogKey
from ousel.sealed_log.log import SealedLog
from ousel.sealed_log.tiles import parse_address

# A tile's number has groups of three digits. Four groups are enough for 256 trillion leaves; one
# more segment holds the width of a partial tile.
TILE_SEGMENTS_MAX: Final = 5

_TEXT: Final = b"text/plain; charset=utf-8"
_OCTETS: Final = b"application/octet-stream"
_FOREVER: Final = (b"cache-control", b"public, max-age=31536000, immutable")
_FOR_A_SECOND: Final = (b"cache-control", b"public, max-age=1")
_FOR_A_MINUTE: Final = (b"cache-control", b"public, max-age=60")
# Anyone may read these files, even from a page of another origin.
_FOR_EVERYONE: Final = (b"access-control-allow-origin", b"*")


class LogEndpoints:
    """Serves the log to everyone."""

    def __init__(self, log: SealedLog) -> None:
        """Serve this log."""
        self._reader = log.reader
        self._key_holder = log.key_holder

    def routes(self) -> list[Route]:
        """Return the routes of the log."""
        names = "abcde"[:TILE_SEGMENTS_MAX]
        tile_paths = [
            "/log/tile/{level}/" + "/".join(f"{{{name}}}" for name in names[:count])
            for count in range(1, TILE_SEGMENTS_MAX + 1)
        ]
        return [
            _route("/log/checkpoint", self.checkpoint, "logCheckpoint"),
            _route("/log/key", self.key, "logKey"),
            _route("/log/former-keys", self.former_keys, "logFormerKeys"),
            *(_route(path, self.tile, f"logTile{at}") for at, path in enumerate(tile_paths, 1)),
        ]

    async def checkpoint(self, _: Call[NoBody, NoQuery]) -> Answer:
        """Answer with the newest checkpoint, a signed note."""
        checkpoint = await self._reader.checkpoint()
        if checkpoint is None:
            raise NotFound("The log has no checkpoint yet.")
        return Answer(200, checkpoint.encode(), _TEXT, (_FOR_A_SECOND, _FOR_EVERYONE))

    async def key(self, _: Call[NoBody, NoQuery]) -> Answer:
        """Answer with the verifier key, in one line."""
        text = f"{self._known_key().verifier}\n"
        return Answer(200, text.encode(), _TEXT, (_FOR_A_MINUTE, _FOR_EVERYONE))

    async def former_keys(self, _: Call[NoBody, NoQuery]) -> Answer:
        """Answer with the notes by which former keys have named their successors."""
        text = "\n\n".join(self._known_key().successions)
        return Answer(200, text.encode(), _TEXT, (_FOR_A_MINUTE, _FOR_EVERYONE))

    async def tile(self, call: Call[NoBody, NoQuery]) -> Answer:
        """Answer with the hashes of a tile."""
        tile = parse_address("/".join(call.path.values()))
        hashes = None if tile is None else await self._reader.tile(tile)
        if tile is None or hashes is None:
            raise NotFound("The log has no such tile.")
        return Answer(200, hashes, _OCTETS, (_FOREVER, _FOR_EVERYONE))

    def _known_key(self) -> LogKey:
        if self._key_holder.key is None:
            raise NotFound("The log has no key yet.")
        return self._key_holder.key


def _route(path: str, endpoint: Callable[..., Awaitable[Answer]], name: str) -> Route:
    return Route(
        method="GET",
        path=path,
        endpoint=endpoint,
        name=name,
        summary="A public file of the log",
        access="public",
        in_reference=False,
    )
