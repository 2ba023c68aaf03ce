"""Tiles as in C2SP tlog-tiles: the hashes of the tree in files of 256, and their addresses.

A tile holds up to 256 hashes of one tile level. Tile level 0 holds the hashes of the leaves. A
hash on a higher tile level is the root of a full tile of the level below.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from ousel.sealed_log.merkle import HASH_BYTES, Node, node_hash

TILE_WIDTH: Final = 256
_TILE_HEIGHT: Final = 8
_ADDRESS: Final = re.compile(
    r"(?P<level>0|[1-9][0-9]?)/(?P<index>(?:x[0-9]{3}/)*[0-9]{3})"
    r"(?:\.p/(?P<width>[1-9][0-9]{0,2}))?"
)
_LEVEL_MAX: Final = 63
_INDEX_MAX: Final = (1 << 63) // TILE_WIDTH - 1  # no log has more leaves


class TileKey(msgspec.Struct, frozen=True, gc=False):
    """The place of a tile. The tile is stored under it, however many hashes it has so far."""

    level: int
    index: int


class Tile(msgspec.Struct, frozen=True, gc=False):
    """A tile as it is published: with the number of hashes in it."""

    key: TileKey
    width: int

    @property
    def address(self) -> str:
        """The path of the tile under `tile/`."""
        digits = f"{self.key.index:03d}"
        groups = [f"{digits[: len(digits) % 3]:0>3}"] if len(digits) % 3 else []
        groups += [digits[at : at + 3] for at in range(len(digits) % 3, len(digits), 3)]
        path = "/".join([f"x{group}" for group in groups[:-1]] + groups[-1:])
        partial = f".p/{self.width}" if self.width < TILE_WIDTH else ""
        return f"{self.key.level}/{path}{partial}"


def parse_address(address: str) -> Tile | None:
    """Return the tile at this path under `tile/`, or None if the path is not a tile's."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        return None
    index = int(match["index"].replace("x", "").replace("/", ""))
    tile = Tile(TileKey(int(match["level"]), index), int(match["width"] or TILE_WIDTH))
    is_canonical = tile.address == address and tile.key.level <= _LEVEL_MAX
    return tile if is_canonical and index <= _INDEX_MAX else None


def hashes_on_level(level: int, size: int) -> int:
    """Return how many hashes a tree of this size has on a tile level."""
    return size >> (level * _TILE_HEIGHT)


def tile_of_size(key: TileKey, size: int) -> Tile | None:
    """Return this tile as a tree of this size publishes it, or None if it has no hashes yet."""
    width = min(hashes_on_level(key.level, size) - key.index * TILE_WIDTH, TILE_WIDTH)
    return Tile(key, width) if width > 0 else None


def tiles_with(nodes: Iterable[Node]) -> set[TileKey]:
    """Return the tiles from which the hashes of these nodes can be computed."""
    return {_hashes_under(node)[0] for node in nodes}


def right_edge(size: int) -> list[TileKey]:
    """Return the partial tiles of a tree of this size, which `append_leaves` needs."""
    edge, level = [], 0
    while count := hashes_on_level(level, size):
        if count % TILE_WIDTH:
            edge.append(TileKey(level, count // TILE_WIDTH))
        level += 1
    return edge


def append_leaves(
    tiles: Mapping[TileKey, bytes], size: int, leaf_hashes: Sequence[bytes]
) -> dict[TileKey, bytes]:
    """Return the tiles that change when a tree of this size gets these leaves.

    `tiles` must hold the tiles of `right_edge(size)`.
    """
    changed: dict[TileKey, bytes] = {}
    level, added = 0, list(leaf_hashes)
    while added:
        position = hashes_on_level(level, size)
        full: list[bytes] = []
        while added:
            index, width = divmod(position, TILE_WIDTH)
            key = TileKey(level, index)
            stored = tiles[key][: width * HASH_BYTES] if width else b""
            taken = added[: TILE_WIDTH - width]
            changed[key] = stored + b"".join(taken)
            if width + len(taken) == TILE_WIDTH:
                full.append(_subtree_root(changed[key]))
            position, added = position + len(taken), added[len(taken) :]
        level, added = level + 1, full
    return changed


class TileHashes:
    """The hashes of nodes, computed from the contents of tiles."""

    def __init__(self, tiles: Mapping[TileKey, bytes]) -> None:
        """Read from these tiles; those of `tiles_with(nodes)` must be among them."""
        self._tiles = tiles

    def __call__(self, node: Node) -> bytes:
        """Return the hash of a node. A missing tile is a KeyError, a short one an IndexError."""
        key, start, count = _hashes_under(node)
        hashes = self._tiles[key][start * HASH_BYTES : (start + count) * HASH_BYTES]
        if len(hashes) != count * HASH_BYTES:
            raise IndexError(f"tile {key.level}/{key.index} has too few hashes")
        return _subtree_root(hashes)


def _hashes_under(node: Node) -> tuple[TileKey, int, int]:
    """Return the tile that holds the hashes under a node, their first place and their number."""
    level, height = divmod(node.level, _TILE_HEIGHT)
    count = 1 << height
    index, start = divmod(node.index * count, TILE_WIDTH)
    return TileKey(level, index), start, count


def _subtree_root(hashes: bytes) -> bytes:
    while len(hashes) > HASH_BYTES:
        pairs = range(0, len(hashes), 2 * HASH_BYTES)
        hashes = b"".join([node_hash(hashes[at : at + 2 * HASH_BYTES]) for at in pairs])
    return hashes
