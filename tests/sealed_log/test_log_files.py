"""The public files of the log: checkpoint, key and tiles."""

from collections.abc import AsyncIterator

import httpx2
import pytest

from ousel.database.port import Database
from ousel.sealed_log.checkpoints import open_checkpoint
from ousel.sealed_log.merkle import root_hash
from ousel.sealed_log.notes import VerifierKey, parse_verifier_key
from ousel.sealed_log.tiles import TileHashes, append_leaves
from tests.sealed_log.logs import Log
from tests.support.accounts import person
from tests.support.in_process import in_process_client

PORTAL = "https://pay.example"


@pytest.fixture
async def client(
    log: Log, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the log's portal; the test seals by itself."""
    monkeypatch.setattr("ousel.app.background_tasks.TICK_SECONDS", 3_600)
    async with in_process_client(
        database_url, portal_url=PORTAL, base_url=f"{PORTAL}/v1", log_key_file=log.key_holder.path
    ) as opened:
        yield opened


async def fetch(client: httpx2.AsyncClient, path: str) -> httpx2.Response:
    return await client.get(f"{PORTAL}/log/{path}")


async def test_a_reader_rebuilds_the_log_from_its_files(
    log: Log, client: httpx2.AsyncClient
) -> None:
    """The leaves in the tile have the root that the checkpoint states, signed by the key."""
    for name in ("ada", "bob", "eve"):
        await person(log.database, name, "1")
    await log.sealer.seal_all()

    key = await fetch(client, "key")
    checkpoint = await fetch(client, "checkpoint")
    tile = await fetch(client, "tile/0/000.p/3")

    verifier = parse_verifier_key(key.text)
    assert isinstance(verifier, VerifierKey)
    assert key.text.count("\n") == 1
    signed, _ = open_checkpoint(checkpoint.text, [verifier])
    hashes = [tile.content[at : at + 32] for at in (0, 32, 64)]
    assert (signed.origin, signed.size) == ("pay.example/log", 3)
    assert signed.root == root_hash(3, TileHashes(append_leaves({}, 0, hashes)))
    assert (await fetch(client, "tile/0/000.p/2")).content == tile.content[:64]
    assert (await fetch(client, "former-keys")).text == ""


async def test_tiles_are_cached_forever_and_the_checkpoint_is_not(
    log: Log, client: httpx2.AsyncClient
) -> None:
    """A tile of a given width never changes. Everyone may read them, from any page."""
    await person(log.database, "ada", "1")
    await log.sealer.seal_all()

    answers = {path: await fetch(client, path) for path in ("tile/0/000.p/1", "checkpoint", "key")}

    cached = {path: answer.headers["cache-control"] for path, answer in answers.items()}
    assert cached == {
        "tile/0/000.p/1": "public, max-age=31536000, immutable",
        "checkpoint": "public, max-age=1",
        "key": "public, max-age=60",
    }
    assert {answer.headers["access-control-allow-origin"] for answer in answers.values()} == {"*"}
    assert answers["tile/0/000.p/1"].headers["content-type"] == "application/octet-stream"
    assert answers["checkpoint"].headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        *("tile/0/000", "tile/0/000.p/2", "tile/0/001", "tile/1/000", "tile/0/0", "tile/0/000.p/0"),
        *("tile/entries/000", "tile/0/x000/000", "tile/64/000", "tile/x/000", "tile/0/000.p/256"),
        "tile/0/x999/x999/x999/999",
    ],
)
@pytest.mark.one_engine
async def test_what_the_log_does_not_have_is_not_found(
    log: Log, client: httpx2.AsyncClient, path: str
) -> None:
    """Tiles that do not exist yet, malformed addresses, and the data under the leaves."""
    await person(log.database, "ada", "1")
    await log.sealer.seal_all()

    assert (await fetch(client, path)).status_code == 404


async def test_a_log_without_leaves_has_a_checkpoint(log: Log, client: httpx2.AsyncClient) -> None:
    """Its size is 0, so that witnesses can begin with it."""
    await log.sealer.seal_all()

    assert (await fetch(client, "checkpoint")).text.splitlines()[:2] == ["pay.example/log", "0"]


async def test_without_a_key_movements_are_sealed_and_nothing_is_signed(
    log: Log, database: Database
) -> None:
    """Once there is a key, it signs for all leaves. Then a sealer without it seals no more."""
    key, log.key_holder.key = log.key_holder.key, None
    await person(database, "ada", "1")
    assert await log.sealer.seal_all() == 1
    await person(database, "bob", "1")

    log.key_holder.key = key
    assert await log.sealer.seal_all() == 1
    assert await log.assert_complete() == 2

    log.key_holder.key = None
    await person(database, "eve", "1")
    assert await log.sealer.seal_all() == 0
