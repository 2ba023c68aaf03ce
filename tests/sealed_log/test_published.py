"""A database whose log contradicts a published checkpoint is not served without a declaration."""

import shutil
from pathlib import Path

import httpx2
import pytest

from ousel.kernel.settings import Settings
from ousel.sealed_log import store
from ousel.sealed_log.backfill import BackfillSearch
from ousel.sealed_log.checkpoints import Checkpoint
from ousel.sealed_log.keys import KeyHolder, LogKeyUnusable, new_key
from ousel.sealed_log.published import CheckpointRecorder, LogShortened, read_published
from tests.cli.commands import ousel
from tests.sealed_log.logs import Log
from tests.support.accounts import person
from tests.support.engines import Engines
from tests.support.logs import captured_logs
from tests.support.raw_sql import RawSql
from tests.support.server import Server
from tests.support.waiting import wait_until


def recorder_of(log: Log) -> CheckpointRecorder:
    """Return a recorder as that of a new server process, with the file beside the log's key."""
    return CheckpointRecorder(log.database, log.key_holder)


def checkpoint_file(key_file: Path) -> Path:
    """Return the file beside the key in which the published checkpoint is recorded."""
    return key_file.with_name(f"{key_file.name}.checkpoint")


def published_size(file: Path) -> int:
    """Return how many leaves the recorded checkpoint has."""
    published = read_published(file)
    return 0 if published is None else published.checkpoint.size


def declare_restore(log: Log, lost_size: int) -> None:
    """Replace the key by one whose note declares that a checkpoint of this size was lost."""
    assert log.key_holder.key is not None
    log.key_holder.key = log.key_holder.key.create_successor(
        Checkpoint("pay.example/log", lost_size, bytes(32))
    )


async def seal_a_movement(log: Log, username: str) -> None:
    """Open an account with money, and seal that."""
    await person(log.database, username, "1")
    await log.sealer.seal_all()


async def lose_the_second_movement(log: Log, raw_sql: RawSql) -> None:
    """Seal two movements, record the checkpoint, and make the log one leaf long again."""
    await seal_a_movement(log, "ada")
    await seal_a_movement(log, "bob")
    await recorder_of(log).record()
    await raw_sql.run("UPDATE sealed_log SET size = 1")


async def test_a_log_that_grows_is_accepted(log: Log) -> None:
    """What was published is the beginning of the log."""
    await recorder_of(log).check()
    await seal_a_movement(log, "ada")
    await recorder_of(log).record()
    await seal_a_movement(log, "bob")

    await recorder_of(log).check()


async def test_a_log_that_became_shorter_is_refused(log: Log, raw_sql: RawSql) -> None:
    """It is that of an older backup; the message names the file, and what to do on which host."""
    await lose_the_second_movement(log, raw_sql)

    message = r"the log has 1 leaf,.*log-key.checkpoint.*--restored.*on another host"
    with pytest.raises(LogShortened, match=message):
        await recorder_of(log).check()


async def test_another_log_of_the_same_size_is_refused(log: Log, raw_sql: RawSql) -> None:
    """Other movements have taken the places of those that were lost with an older backup."""
    await seal_a_movement(log, "ada")
    await recorder_of(log).record()
    await raw_sql.run("DELETE FROM sealed_tiles")
    with pytest.raises(LogShortened, match="lacks tiles"):
        await recorder_of(log).check()

    await raw_sql.run("DELETE FROM sealed_batches")
    await raw_sql.run("DELETE FROM sealed_log")
    await person(log.database, "bob", "1")
    await log.another_process().seal_all()
    with pytest.raises(LogShortened, match="with 1 leaf, it has another root"):
        await recorder_of(log).check()


async def test_a_shorter_log_never_replaces_what_was_published(log: Log, raw_sql: RawSql) -> None:
    """A server that runs while the database is replaced keeps the larger checkpoint."""
    await seal_a_movement(log, "ada")
    await seal_a_movement(log, "bob")
    server = recorder_of(log)
    await server.record()
    await raw_sql.run("UPDATE sealed_log SET size = 1")
    await server.record()

    with pytest.raises(LogShortened):
        await recorder_of(log).check()


async def test_no_process_overwrites_what_another_has_recorded(log: Log, raw_sql: RawSql) -> None:
    """The log went back to more than this process has recorded, but less than another one has."""
    await seal_a_movement(log, "ada")
    server = CheckpointRecorder(log.database, log.another_holder())
    await server.record()
    await seal_a_movement(log, "bob")
    second = (await log.database.read(store.read_head)).checkpoint
    await seal_a_movement(log, "eve")
    await recorder_of(log).record()
    await raw_sql.run("UPDATE sealed_log SET size = 2, checkpoint = ?", second)

    await server.record()

    assert log.key_holder.checkpoint_path is not None
    assert published_size(log.key_holder.checkpoint_path) == 3


async def test_a_process_does_not_continue_a_log_that_went_back(log: Log, raw_sql: RawSql) -> None:
    """It keeps its record and says so once; it goes on when it finds the right log again."""
    await seal_a_movement(log, "ada")
    await seal_a_movement(log, "bob")
    server = recorder_of(log)
    await server.record()
    tables = ("sealed_log", "sealed_tiles", "sealed_batches")
    for table in tables:
        await raw_sql.run(f"CREATE TABLE right_{table} AS SELECT * FROM {table}")
    for table in tables:
        await raw_sql.run(f"DELETE FROM {table}")
    await BackfillSearch(log.database).search()
    await person(log.database, "eve", "1")
    assert await log.sealer.seal_all() == 0
    await log.another_process().seal_all()

    with captured_logs() as logs:
        await server.record()
        await server.record()
        await person(log.database, "sue", "1")
        await log.another_sealer().seal_due()

    assert [event["event"] for event in logs] == ["sealing has stopped"]
    assert (await log.checkpoint()).size == 3
    assert log.key_holder.checkpoint_path is not None
    assert published_size(log.key_holder.checkpoint_path) == 2

    for table in tables:
        await raw_sql.run(f"DELETE FROM {table}")
        await raw_sql.run(f"INSERT INTO {table} SELECT * FROM right_{table}")
    with captured_logs() as logs:
        await server.record()
    assert [event["event"] for event in logs] == ["sealing has resumed"]
    await log.another_sealer().seal_due()
    await server.record()
    assert published_size(log.key_holder.checkpoint_path) > 2


async def test_a_log_with_a_damaged_tile_is_not_continued(log: Log, raw_sql: RawSql) -> None:
    """A server that runs says so and stops sealing; another one refuses to start."""
    await seal_a_movement(log, "ada")
    server = recorder_of(log)
    await server.record()
    await seal_a_movement(log, "bob")
    await raw_sql.run("UPDATE sealed_tiles SET hashes = 'x'")

    with captured_logs() as logs:
        await server.record()

    assert [event["event"] for event in logs] == ["sealing has stopped"]
    assert not log.key_holder.may_continue_log
    with pytest.raises(LogKeyUnusable, match=r"is damaged: restore it from a backup$"):
        await recorder_of(log).check()


async def test_a_declared_restore_is_accepted_on_every_host(log: Log, raw_sql: RawSql) -> None:
    """A host with the new key accepts the shorter log, although it has recorded the longer one."""
    await lose_the_second_movement(log, raw_sql)

    declare_restore(log, lost_size=2)

    await recorder_of(log).check()


async def test_a_declaration_covers_no_larger_checkpoint(log: Log, raw_sql: RawSql) -> None:
    """A host that has recorded more than was declared lost still refuses the log."""
    await lose_the_second_movement(log, raw_sql)

    declare_restore(log, lost_size=1)

    with pytest.raises(LogShortened):
        await recorder_of(log).check()


async def test_a_declaration_covers_no_later_checkpoint(log: Log, raw_sql: RawSql) -> None:
    """What the new key has published must not be lost either."""
    await seal_a_movement(log, "ada")
    declare_restore(log, lost_size=5)
    await seal_a_movement(log, "bob")
    await recorder_of(log).record()
    await raw_sql.run("UPDATE sealed_log SET size = 1")

    with pytest.raises(LogShortened):
        await recorder_of(log).check()


async def test_the_checkpoint_is_recorded_where_the_setting_says(log: Log, tmp_path: Path) -> None:
    """So a server whose key is in a folder that it cannot write to can record it."""
    file = tmp_path / "state" / "checkpoint"
    file.parent.mkdir()
    holder = KeyHolder(Settings(log_key_file=log.key_holder.path, log_checkpoint_file=file))
    await seal_a_movement(log, "ada")

    await CheckpointRecorder(log.database, holder).record()

    assert published_size(file) == 1
    assert log.key_holder.checkpoint_path is not None
    assert not log.key_holder.checkpoint_path.exists()


async def test_a_file_that_cannot_be_written_is_reported_once(log: Log) -> None:
    """The server goes on, and the operator learns what will not be noticed."""
    assert log.key_holder.checkpoint_path is not None
    log.key_holder.checkpoint_path.mkdir()
    server = recorder_of(log)
    await seal_a_movement(log, "ada")

    with captured_logs() as logs:
        await server.record()
        await server.record()

    [warning] = logs
    assert "will not be noticed" in warning["event"]


async def test_a_file_with_something_else_is_refused(log: Log) -> None:
    """The message names the file, and says when it may be removed."""
    assert log.key_holder.checkpoint_path is not None
    log.key_holder.checkpoint_path.write_text("nonsense")

    message = r"log-key.checkpoint does not hold a checkpoint: .*remove it if the database is not"
    with pytest.raises(LogKeyUnusable, match=message):
        await recorder_of(log).check()


async def test_a_checkpoint_of_another_log_is_refused(log: Log) -> None:
    """No restore is declared for it: the message says to remove it."""
    await seal_a_movement(log, "ada")
    await recorder_of(log).record()
    log.key_holder.key = new_key("pay.example/log")
    with pytest.raises(LogKeyUnusable, match=r"not signed with the key.*or remove the checkpoint"):
        await recorder_of(log).check()


def back_up_and_go_on(database: str, backup: str) -> None:
    """Serve a new SQLite file; back it up after its first movement, and seal a second one."""
    file = checkpoint_file(Path(f"{database}.log-key"))
    named = ("--username=ada", "--email=ada@example.com", "--name=Ada")
    assert ousel("account", "create", *named, database=database).exit_code == 0
    with Server(database):
        ousel("account", "fund", "@ada", "1", database=database)
        wait_until(lambda: published_size(file) == 1)
        assert ousel("backup", backup, database=database).exit_code == 0
        ousel("account", "fund", "@ada", "1", database=database)
        wait_until(lambda: published_size(file) == 2)


@pytest.mark.slow
def test_a_restored_backup_is_served_after_the_operator_has_declared_it(
    engines: Engines, tmp_path: Path
) -> None:
    """The server refuses to start until its key is there, and what the log has lost is declared."""
    database, backup = engines.fresh_url("sqlite", tmp_path), str(tmp_path / "backup")
    back_up_and_go_on(database, backup)
    restored = str(tmp_path / "restored.db")
    key = Path(f"{restored}.log-key")
    assert ousel("restore", backup, database=restored).exit_code == 0

    with pytest.raises(AssertionError, match=f"not in {key}: put the file of that key there"):
        Server(restored).__enter__()
    assert not key.exists()
    shutil.copy(f"{database}.log-key", key)
    shutil.copy(f"{database}.log-key.checkpoint", checkpoint_file(key))
    with pytest.raises(AssertionError, match=r"the checkpoint has 2.*ousel log key new --restored"):
        Server(restored).__enter__()
    declared = ousel("log", "key", "new", "--restored", database=restored)
    with Server(restored) as server:
        notes = httpx2.get(f"{server.origin}/log/former-keys").text
        wait_until(lambda: published_size(checkpoint_file(key)) == 1)

    assert declared.exit_code == 0, declared.errors
    assert "\nrestored from a backup after 2 " in notes
    assert ousel("verify", database=restored).exit_code == 0
