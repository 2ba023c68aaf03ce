"""The key of the log: where it is kept, who may read it, and how it is replaced."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from ousel.app.ousel import Ousel
from ousel.database.port import Database
from ousel.kernel.settings import Settings
from ousel.sealed_log.keys import (
    KeyExists,
    KeyHolder,
    LogKeyUnusable,
    new_key,
    origin_at,
    read_key,
    write_key,
)
from ousel.sealed_log.merkle import EMPTY_ROOT
from ousel.sealed_log.notes import open_note, parse_verifier_key
from tests.sealed_log.logs import Log

ORIGIN = "pay.example/log"


def beside_a_file(folder: Path) -> KeyHolder:
    """Return the key of a server on an SQLite file in this folder, not yet read."""
    url = str(folder / "ousel.db")
    return KeyHolder(Settings(database_url=url, portal_url="https://pay.example"))


async def test_a_key_is_made_beside_an_sqlite_file(database: Database, tmp_path: Path) -> None:
    """Only the owner can read it, and the next start reads the same key."""
    folder = tmp_path / "folder"
    folder.mkdir()
    first, second = beside_a_file(folder), beside_a_file(folder)
    await first.read(database, creates=False)
    assert list(folder.iterdir()) == []
    await first.read(database)
    await second.read(database)

    path = folder / "ousel.db.log-key"
    assert first.path == path
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(folder.iterdir()) == [path]
    assert first.key is not None
    assert second.key is not None
    assert first.key.verifier == second.key.verifier
    assert first.key.origin == ORIGIN


async def test_a_lost_key_is_not_made_anew(log: Log, tmp_path: Path) -> None:
    """A log that was signed is served with its key alone; the message says where to put it."""
    await log.sealer.seal_all()
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "ousel.db.log-key"
    advice = f"not in {path}: put the file of that key there"

    with pytest.raises(LogKeyUnusable, match=advice):
        await beside_a_file(folder).read(log.database)
    assert list(folder.iterdir()) == []
    write_key(path, new_key(ORIGIN))
    with pytest.raises(LogKeyUnusable, match=advice):
        await beside_a_file(folder).read(log.database)

    assert log.key_holder.path is not None
    path.write_bytes(log.key_holder.path.read_bytes())
    await beside_a_file(folder).read(log.database)


async def test_a_server_that_lacks_the_key_of_its_log_does_not_start(
    log: Log, database_url: str, tmp_path: Path
) -> None:
    """It says why, as for every failed start."""
    await log.sealer.seal_all()
    path = tmp_path / "another-key"
    write_key(path, new_key(ORIGIN))
    sent: list[Mapping[str, Any]] = []

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    ousel = Ousel(Settings(database_url=database_url, log_key_file=path))
    await ousel({"type": "lifespan"}, AsyncMock(), send)

    [failed] = sent
    assert failed["type"] == "lifespan.startup.failed"
    assert f"not in {path}" in failed["message"]


async def test_a_key_is_not_made_for_postgresql(database: Database, tmp_path: Path) -> None:
    """Each host would have another one: without a setting there is no key, else it must exist."""
    settings = Settings(database_url="postgresql://db/ousel")
    holder = KeyHolder(settings)
    await holder.read(database)
    assert holder.key is None

    named = KeyHolder(Settings(database_url="postgresql://db/ousel", log_key_file=tmp_path / "key"))
    with pytest.raises(LogKeyUnusable, match="run 'ousel log key new'"):
        await named.read(database)


@pytest.mark.parametrize(
    ("portal_url", "origin"),
    [("https://pay.example", ORIGIN), ("http://127.0.0.1:8000", "127.0.0.1:8000/log")],
)
def test_the_log_has_the_address_of_the_portal_as_its_name(portal_url: str, origin: str) -> None:
    """Without the scheme."""
    assert origin_at(portal_url) == origin


def test_a_key_is_never_overwritten_by_accident(tmp_path: Path) -> None:
    """A new key does not replace a file, unless this is wanted."""
    path = tmp_path / "key"
    write_key(path, new_key(ORIGIN))
    with pytest.raises(KeyExists):
        write_key(path, new_key(ORIGIN))
    assert list(tmp_path.iterdir()) == [path]


def test_the_old_key_signs_the_new_one(tmp_path: Path) -> None:
    """A reader who trusts the first key can follow the notes to the newest one."""
    path = tmp_path / "key"
    first = new_key(ORIGIN)
    second = first.create_successor()
    third = second.create_successor()
    write_key(path, third)

    read = read_key(path, ORIGIN)

    assert read is not None
    assert read.verifier == third.verifier
    trusted = first.verifier
    for note in read.successions:
        _, former, successor = open_note(note, [trusted]).text.splitlines()
        assert former == str(trusted)
        trusted = parse_verifier_key(successor)
    assert trusted == third.verifier


def test_a_log_is_continued_only_by_its_key_or_a_named_successor() -> None:
    """Another key is refused; a successor, or the same key under another name, signs again."""
    first = new_key(ORIGIN)
    checkpoint = first.sign_checkpoint(0, EMPTY_ROOT)

    assert not first.needs_new_checkpoint(checkpoint)
    assert first.needs_new_checkpoint(None)
    assert first.create_successor().needs_new_checkpoint(checkpoint)
    with pytest.raises(LogKeyUnusable, match="another key has signed"):
        new_key(ORIGIN).needs_new_checkpoint(checkpoint)


def test_a_key_keeps_its_file_when_the_portal_moves(tmp_path: Path) -> None:
    """The log gets another name, and the checkpoint is signed again under this name."""
    path = tmp_path / "key"
    write_key(path, new_key(ORIGIN))
    before, after = read_key(path, ORIGIN), read_key(path, "new.example/log")

    assert before is not None
    assert after is not None
    assert before.verifier.public == after.verifier.public
    assert after.needs_new_checkpoint(before.sign_checkpoint(0, EMPTY_ROOT))


@pytest.mark.parametrize("content", ["", "hello\n", "PRIVATE+KEY+x+00000000+AQ==\n", "é"])
def test_a_file_without_a_key_is_refused(tmp_path: Path, content: str) -> None:
    """In one sentence that names the file."""
    path = tmp_path / "key"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(LogKeyUnusable, match=str(path)):
        read_key(path, ORIGIN)


async def test_a_link_to_a_missing_key_is_refused(database: Database, tmp_path: Path) -> None:
    """A server does not start without a key because of it, and the message names the link."""
    holder = beside_a_file(tmp_path)
    assert holder.path is not None
    holder.path.symlink_to(tmp_path / "missing")

    with pytest.raises(LogKeyUnusable, match=rf"{holder.path} is a link to a missing file"):
        await holder.read(database)
