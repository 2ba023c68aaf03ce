"""`ousel log key`, and `ousel verify --since`."""

import asyncio
from pathlib import Path

import pytest

from ousel.cli.server import prepare_to_serve
from ousel.database.port import Database
from ousel.kernel.settings import Settings
from ousel.sealed_log import store
from ousel.sealed_log.backfill import BackfillSearch
from ousel.sealed_log.keys import new_key, write_key
from ousel.sealed_log.merkle import EMPTY_ROOT
from ousel.sealed_log.notes import open_note, parse_verifier_key
from ousel.sealed_log.published import CheckpointRecorder, LogShortened
from ousel.sealed_log.verification import check_extends
from tests.cli.commands import Outcome, assert_fails, ousel
from tests.project.code_blocks import blocks_in
from tests.project.documents import ROOT
from tests.sealed_log.logs import Log
from tests.support.accounts import person
from tests.support.raw_sql import RawSql


@pytest.fixture
def key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that holds the key, which does not exist yet."""
    path = tmp_path / "log-key"
    monkeypatch.setenv("OUSEL_LOG_KEY_FILE", str(path))
    monkeypatch.setenv("OUSEL_PORTAL_URL", "https://pay.example")
    return path


def content(file: Path) -> bytes:
    """Return the bytes in a file."""
    return file.read_bytes()


def remove(file: Path) -> None:
    """Remove a file, which must exist."""
    file.unlink()


def test_a_key_is_created_shown_and_replaced(key_file: Path) -> None:
    """The old key signs the new one; only the owner can read the file."""
    assert_fails(ousel("log", "key", "show", database="x.db"), "there is no log key")
    first = ousel("log", "key", "new", "--json", database="x.db").json
    shown = ousel("log", "key", "show", "--json", database="x.db").json
    second = ousel("log", "key", "new", "--json", database="x.db").json

    assert first == shown == {"key": first["key"], "file": str(key_file)}
    assert key_file.stat().st_mode & 0o777 == 0o600
    assert second["replaces"] == first["key"]
    note = key_file.read_text().partition("\n\n\n")[2]
    text = open_note(note, [parse_verifier_key(first["key"])]).text
    assert text.splitlines()[1:] == [first["key"], second["key"]]


def test_the_first_commands_on_the_page_about_the_key_do_not_replace_it(key_file: Path) -> None:
    """With SQLite, a server has created the key when the operator reads the page."""
    first = next(blocks_in(ROOT, "docs/operating/sealed-log.md"))
    key = ousel("log", "key", "new", "--json", database="x.db").json["key"]
    before = content(key_file)

    shown = [ousel(*line.split()[1:], database="x.db") for line in first.text.splitlines()]

    assert [outcome.rows["key"] for outcome in shown] == [key]
    assert content(key_file) == before


async def test_a_key_that_did_not_sign_is_not_replaced(
    database: Database, database_url: str, key_file: Path
) -> None:
    """Servers would refuse its successor too; the key that has signed is replaced."""
    await Log(database, key_file.parent).sealer.seal_all()

    def replace() -> Outcome:
        return ousel("log", "key", "new", database=database_url)

    def try_keys() -> None:
        right = key_file.read_bytes()
        key_file.unlink()
        assert_fails(replace(), f"not in {key_file}: put the file of that key there")
        assert not key_file.exists()
        write_key(key_file, new_key("pay.example/log"))
        wrong = key_file.read_bytes()
        assert_fails(replace(), f"not in {key_file}: put the file of that key there")
        assert key_file.read_bytes() == wrong
        key_file.write_bytes(right)
        for _ in range(2):  # the second time, the log is still signed with the first key
            assert replace().exit_code == 0

    await asyncio.to_thread(try_keys)


def test_a_key_can_be_created_before_its_database(key_file: Path, tmp_path: Path) -> None:
    """Also while the database cannot be reached, or has no tables yet."""
    empty = tmp_path / "empty.db"
    empty.touch()
    for database in ("postgresql://127.0.0.1:1/ousel", str(empty)):
        assert ousel("log", "key", "new", database=database).exit_code == 0
        key_file.unlink()


def test_nothing_is_declared_without_a_published_checkpoint(key_file: Path) -> None:
    """The command names the file in which a server would have recorded it."""
    outcome = ousel("log", "key", "new", "--restored", database="x.db")
    assert_fails(outcome, f"there is no published checkpoint at {key_file}.checkpoint")
    assert not key_file.exists()


async def test_a_restore_is_declared_once_and_only_if_something_was_lost(
    database: Database, database_url: str, raw_sql: RawSql, key_file: Path
) -> None:
    """Otherwise the command changes nothing and says why."""
    log = Log(database, key_file.parent)
    for name in ("ada", "bob"):
        await person(database, name, "1")
        await log.sealer.seal_all()
    await CheckpointRecorder(database, log.key_holder).record()

    async def declare() -> Outcome:
        return await asyncio.to_thread(
            ousel, "log", "key", "new", "--restored", database=database_url
        )

    before = content(key_file)
    assert_fails(await declare(), "so nothing was lost: leave out --restored")
    assert content(key_file) == before
    await raw_sql.run("UPDATE sealed_log SET size = 1")
    served = Settings(database_url=database_url, log_key_file=key_file)
    with pytest.raises(LogShortened):  # in the parent of all workers, which would be restarted
        await prepare_to_serve(served, port=8000, workers=1)
    declared = await declare()
    assert declared.exit_code == 0, declared.errors
    after = content(key_file)
    assert_fails(await declare(), "was already declared lost: leave out --restored")
    assert content(key_file) == after != before


async def test_a_log_whose_key_is_lost_is_continued_with_another(
    database: Database, database_url: str, key_file: Path
) -> None:
    """The new key signs the same log, to which leaves were only added."""
    log = Log(database, key_file.parent)
    await person(database, "ada", "1")
    await log.sealer.seal_all()
    await CheckpointRecorder(database, log.key_holder).record()
    before = await log.checkpoint()

    async def replace_lost_key(*options: str) -> Outcome:
        arguments = ("log", "key", "new", "--lost", *options)
        return await asyncio.to_thread(ousel, *arguments, database=database_url)

    kept = content(key_file)
    assert_fails(await replace_lost_key(), f"missing in {key_file}: leave out --lost")
    assert_fails(await replace_lost_key("--restored"), "use --lost or --restored, not both")
    assert content(key_file) == kept
    remove(key_file)
    await asyncio.to_thread(write_key, key_file, new_key("pay.example/log"))
    assert_fails(
        await replace_lost_key(), f"{key_file} holds another key: move that file away first"
    )
    remove(key_file)
    created = (await replace_lost_key("--json")).json
    assert created == {"key": created["key"], "file": str(key_file)}

    served = Settings(
        database_url=database_url, portal_url="https://pay.example", log_key_file=key_file
    )
    await prepare_to_serve(served, port=8000, workers=1)
    successor = Log(database, key_file.parent)
    await person(database, "bob", "1")
    await successor.sealer.seal_all()
    after = await successor.checkpoint()
    assert (before.size, after.size) == (1, 2)
    assert await successor.assert_complete() == 2
    await database.read(lambda transaction: check_extends(transaction, before))


async def test_a_lost_key_does_not_hide_a_restore(
    database: Database, database_url: str, raw_sql: RawSql, key_file: Path
) -> None:
    """A log that is shorter than what was published is continued only without the record of it."""
    log = Log(database, key_file.parent)
    await person(database, "ada", "1")
    await log.sealer.seal_all()
    await CheckpointRecorder(database, log.key_holder).record()
    await raw_sql.run("UPDATE sealed_log SET size = 0")
    remove(key_file)

    def replace_lost_key() -> Outcome:
        return ousel("log", "key", "new", "--lost", database=database_url)

    refused = await asyncio.to_thread(replace_lost_key)
    assert_fails(refused, "this database lacks what was published")
    remove(key_file.with_name("log-key.checkpoint"))
    assert (await asyncio.to_thread(replace_lost_key)).exit_code == 0


async def test_a_lost_key_that_cannot_be_replaced_leaves_everything_as_it_was(
    database: Database,
    database_url: str,
    raw_sql: RawSql,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a container, for example, the folder of the key may be read-only."""
    log = Log(database, tmp_path)
    await log.sealer.seal_all()
    monkeypatch.setenv("OUSEL_PORTAL_URL", "https://pay.example")
    monkeypatch.setenv("OUSEL_LOG_KEY_FILE", "/dev/null/log-key")

    arguments = ("log", "key", "new", "--lost")
    assert (await asyncio.to_thread(ousel, *arguments, database=database_url)).exit_code == 1

    assert await raw_sql.run("SELECT 1 FROM sealed_log WHERE checkpoint IS NOT NULL")


def test_a_key_needs_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """On PostgreSQL, the setting must name it."""
    monkeypatch.delenv("OUSEL_LOG_KEY_FILE", raising=False)
    outcome = ousel("log", "key", "new", database="postgresql://db/ousel")
    assert_fails(outcome, "set OUSEL_LOG_KEY_FILE")


async def test_verify_says_which_file_is_the_wrong_one(
    database: Database,
    database_url: str,
    key_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A key that is not there, the key of another log, and a checkpoint of another log."""
    await person(database, "ada", "1")
    await Log(database, key_file.parent).sealer.seal_all()
    other_key, checkpoint = new_key("other.example/log"), tmp_path / "checkpoint"
    checkpoint.write_text(other_key.sign_checkpoint(0, EMPTY_ROOT))
    write_key(tmp_path / "other", other_key)

    async def verify(key: Path, *options: str) -> Outcome:
        monkeypatch.setenv("OUSEL_LOG_KEY_FILE", str(key))
        return await asyncio.to_thread(ousel, "verify", *options, database=database_url)

    assert (await verify(key_file)).exit_code == 0
    assert_fails(await verify(tmp_path / "none"), f"there is no log key at {tmp_path / 'none'}")
    wrong_key = "or the file of the log's key is the wrong one"
    assert_fails(await verify(tmp_path / "other"), f"another key has signed the log, {wrong_key}")
    since = await verify(key_file, "--since", str(checkpoint))
    assert_fails(since, f"the checkpoint is not one of this log, {wrong_key}")


async def test_verify_since_a_checkpoint(
    database: Database, database_url: str, raw_sql: RawSql, key_file: Path
) -> None:
    """It says how much was added, and finds a log that was rewritten."""
    folder = key_file.parent
    log = Log(database, folder)
    await person(database, "ada", "1")
    await log.sealer.seal_all()
    checkpoint = folder / "checkpoint"
    checkpoint.write_text((await database.read(store.read_head)).checkpoint or "")
    await person(database, "bob", "1")
    await log.sealer.seal_all()

    since = await asyncio.to_thread(
        ousel, "verify", "--since", str(checkpoint), "--json", database=database_url
    )
    assert since.json | {"seconds": 0} == {
        "result": "the log extends the checkpoint",
        "leaves_before": 1,
        "leaves_added": 1,
        "seconds": 0,
    }

    for table in ("sealed_batches", "sealed_tiles", "sealed_log"):
        await raw_sql.run(f"DELETE FROM {table}")
    await BackfillSearch(log.database).search()
    await log.another_process().seal_all()
    rewritten = await asyncio.to_thread(
        ousel, "verify", "--since", str(checkpoint), database=database_url
    )
    assert_fails(rewritten, "with 1 leaf, it has another root")
