"""Addresses and contents of tiles."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ousel.sealed_log.merkle import leaf_hash
from ousel.sealed_log.tiles import (
    Tile,
    TileKey,
    append_leaves,
    parse_address,
    right_edge,
    tile_of_size,
)
from tests.sealed_log.examples import LogInMemory

tiles = st.builds(
    Tile,
    st.builds(TileKey, st.integers(0, 63), st.integers(0, 10**12)),
    st.integers(1, 256),
)


@given(tile=tiles)
@example(tile=Tile(TileKey(0, 999), 256))
@example(tile=Tile(TileKey(0, 1000), 1))
def test_an_address_names_one_tile(tile: Tile) -> None:
    """Reading the address of a tile gives the tile."""
    assert parse_address(tile.address) == tile


def test_the_address_of_the_specification() -> None:
    assert Tile(TileKey(1, 1_234_067), 256).address == "1/x001/x234/067"
    assert Tile(TileKey(0, 5), 17).address == "0/005.p/17"


@pytest.mark.parametrize(
    "address",
    [
        "", "0/5", "0/0005", "0/x000/005", "00/005", "64/005", "0/005.p/0", "0/005.p/256",
        "0/005.p/01", "0/005.p/999", "-1/005", "0/x005", "0/005/006", "0/005 ", "0/005\n",
        "0/\u0660\u0660\u0665", "0/x999/x999/x999/x999/x999/x999/999",
    ],
)  # fmt: skip
def test_any_other_address_is_refused(address: str) -> None:
    """There is one address for each tile, so caches keep each tile once."""
    assert parse_address(address) is None


@given(first=st.integers(0, 700), second=st.integers(0, 700))
def test_tiles_depend_on_the_leaves_alone(first: int, second: int) -> None:
    """It does not matter in which batches the leaves came; the right edge is all that is read."""
    leaves = [number.to_bytes(2) for number in range(first + second)]
    log = LogInMemory(leaves[:first])
    edge = {key: log.tiles[key] for key in right_edge(first)}
    log.tiles |= append_leaves(edge, first, [leaf_hash(leaf) for leaf in leaves[first:]])
    assert log.tiles == LogInMemory(leaves).tiles


def test_the_widths_of_the_specification() -> None:
    """A tree of 70,000 leaves has the tiles that the specification lists."""
    size = 70_000
    assert tile_of_size(TileKey(0, 272), size) == Tile(TileKey(0, 272), 256)
    assert tile_of_size(TileKey(0, 273), size) == Tile(TileKey(0, 273), 112)
    assert tile_of_size(TileKey(0, 274), size) is None
    assert tile_of_size(TileKey(1, 0), size) == Tile(TileKey(1, 0), 256)
    assert tile_of_size(TileKey(1, 1), size) == Tile(TileKey(1, 1), 17)
    assert tile_of_size(TileKey(2, 0), size) == Tile(TileKey(2, 0), 1)
    assert tile_of_size(TileKey(3, 0), size) is None
