"""`ousel restore`: what a restored database has, whose access ends, and what is refused."""

import asyncio
import os
import signal
import sqlite3
import stat
import subprocess
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import msgspec
import pytest
from typing_extensions import override

from ousel.cli.console import clean_up_on_signal
from ousel.database.addresses import is_postgres, open_database
from ousel.database.backup import restore
from ousel.database.deployment import claim_mode
from ousel.database.port import Database, Row, Transaction
from ousel.database.schema import SCHEMA_VERSION
from ousel.database.statements import Statement, Table
from ousel.kernel.clock import MICROS_PER_SECOND, system_clock
from ousel.kernel.ids import new_id
from ousel.oauth.service import end_all_tokens
from ousel.oauth.store import CODES, TOKENS
from ousel.partners.service import keys_of
from ousel.people.rules import Session
from ousel.people.sign_in import end_all_sessions_and_reset_links
from ousel.people.store import SESSIONS, add_session, sessions_of
from ousel.resets.service import find_link, issue_link
from ousel.sandbox.clock import SandboxClock
from tests.cli.commands import OUSEL, PROCESS_SECONDS_MAX, assert_fails, ousel
from tests.support.accounts import partner
from tests.support.engines import Engine, Engines
from tests.support.raw_sql import RawSql
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from alembic.config import Config

pytestmark = pytest.mark.usefixtures("postgres_tools")

HOUR = 3600
# It begins to restore, and does not end by itself.
SLOW_PG_RESTORE = """#!/bin/sh
case "$1" in --list)
  for table in alembic_version entries; do echo "1; 2 3 TABLE public $table ousel"; done; exit ;;
esac
echo $$ > {folder}/started
exec sleep 600
"""
CHECK_SECONDS = 60
ENDLESS_QUERY = (
    "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers)"
    " SELECT MAX(n) FROM numbers"
)
VERSION_BEFORE = f"{int(SCHEMA_VERSION) - 1:04d}"
MANY = 12_000


class InterruptedConnection(sqlite3.Connection):
    """A connection whose copies are interrupted during their first step, as by Ctrl-C.

    Python handles a signal when it next runs Python code.
    """

    @override
    def backup(self, target: sqlite3.Connection, **options: Any) -> None:
        if "progress" in options:
            options["progress"] = self._interrupt
        super().backup(target, **options)
        self._interrupt()

    def _interrupt(self, *_: int) -> None:
        raise KeyboardInterrupt


class SlowlyCheckedConnection(sqlite3.Connection):
    """A connection on which the check of a copy takes long; a signal comes soon after it begins."""

    was_checked_to_the_end = False

    @override
    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if "integrity_check" not in sql:
            return super().execute(sql, *parameters)
        ending = threading.Timer(CHECK_SECONDS, self._end_check)
        ending.start()
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        try:
            return super().execute(ENDLESS_QUERY)
        finally:
            ending.cancel()

    def _end_check(self) -> None:
        SlowlyCheckedConnection.was_checked_to_the_end = True
        self.interrupt()


class CountingTransaction(msgspec.Struct):
    """A transaction that counts the rows of each statement."""

    transaction: Transaction
    rows_touched: list[int]
    follows_unknown_commit: bool = False

    async def fetch(self, statement: Statement, **parameters: object) -> list[Row]:
        rows = await self.transaction.fetch(statement, **parameters)
        self.rows_touched.append(len(rows))
        return rows

    async def execute(self, statement: Statement, **parameters: object) -> int:
        touched = await self.transaction.execute(statement, **parameters)
        self.rows_touched.append(touched)
        return touched

    async def insert(self, table: Table, rows: Iterable[Sequence[object]]) -> None:
        await self.transaction.insert(table, rows)

    async def update(self, table: Table, rows: Iterable[Sequence[object]]) -> None:
        await self.transaction.update(table, rows)


@pytest.mark.parametrize("options", [(), ("--revoke-keys",)])
async def test_a_restore_ends_sessions_and_if_wanted_keys(
    database: Database, database_url: str, elsewhere: str, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """Sessions and links end, keys end if wanted, and the command says what is valid again."""
    owner, app, _ = await partner(database, "harbour")
    await database.write(lambda transaction: _add_session(transaction, owner.id))
    link = await database.write(
        lambda transaction: issue_link(transaction, owner.id, "mail", system_clock)
    )
    file = tmp_path / "books.backup"
    await asyncio.to_thread(ousel, "backup", str(file), database=database_url)

    command = ("restore", str(file), *options, "--json")
    restored = (await asyncio.to_thread(ousel, *command, database=elsewhere)).json

    assert restored["sessions_ended"] == 1
    assert restored["valid_again"].startswith("passwords, passkeys, second factors, recovery codes")
    assert ("partner keys" in restored["valid_again"]) == (not options)
    async with open_database(elsewhere) as copy:
        keys = await copy.read(lambda transaction: keys_of(transaction, app))
        sessions = await copy.read(lambda transaction: sessions_of(transaction, owner.id, 0, 9))
        found = await copy.read(lambda transaction: find_link(transaction, link, system_clock))
    assert [key.is_valid_at(system_clock()) for key in keys] == [not options]
    assert sessions == []
    assert found is None


@pytest.mark.slow
async def test_sessions_end_even_if_the_restored_books_do_not_balance(
    database: Database, database_url: str, elsewhere: str, tmp_path: Path, raw_sql: RawSql
) -> None:
    """The command fails, but the database is filled, and somebody may serve it all the same."""
    owner, _, _ = await partner(database, "harbour")
    await database.write(lambda transaction: _add_session(transaction, owner.id))
    await raw_sql.run("UPDATE accounts SET balance = 5 WHERE username = 'harbour'")
    file = tmp_path / "books.backup"
    await asyncio.to_thread(ousel, "backup", str(file), database=database_url)

    failed = await asyncio.to_thread(ousel, "restore", str(file), database=elsewhere)

    assert_fails(failed, "has the balance 5")
    async with open_database(elsewhere) as copy:
        sessions = await copy.read(lambda transaction: sessions_of(transaction, owner.id, 0, 9))
    assert sessions == []


@pytest.mark.slow
async def test_sessions_and_tokens_end_in_steps(database: Database) -> None:
    """Millions of them would take longer than a statement may."""
    rows = range(MANY)
    sessions = [(f"{row}", "ada", "signed_in", 0, 0, row // 9, "", "", 0) for row in rows]
    codes = [("ada", f"{row}", *[""] * 6, 0, 0, None, row // 9) for row in rows]
    tokens = [("ada", f"{row}", *[""] * 5, 0, row // 9, None) for row in rows]
    rows_touched: list[int] = []

    async def end_all(transaction: Transaction) -> tuple[int, int]:
        await transaction.insert(SESSIONS, sessions)
        await transaction.insert(CODES, codes)
        await transaction.insert(TOKENS, tokens)
        counting = CountingTransaction(transaction, rows_touched)
        return await end_all_sessions_and_reset_links(counting), await end_all_tokens(counting)

    assert await database.write(end_all) == (MANY, MANY)

    assert sum(rows_touched) == 3 * MANY
    assert max(rows_touched) < MANY


@pytest.mark.one_engine
async def test_a_restored_sandbox_revokes_keys_at_its_own_time(
    database: Database, database_url: str, elsewhere: str, tmp_path: Path
) -> None:
    """The time is the sandbox's, not this host's."""
    _, app, _ = await partner(database, "harbour")
    await database.write(lambda transaction: claim_mode(transaction, "test"))
    await SandboxClock(database, system_clock).advance(HOUR)
    file = tmp_path / "books.backup"
    await asyncio.to_thread(ousel, "backup", str(file), database=database_url)

    before = system_clock() + HOUR * MICROS_PER_SECOND
    command = ("restore", str(file), "--revoke-keys", "--json")
    assert (await asyncio.to_thread(ousel, *command, database=elsewhere)).json["keys_revoked"] == 1

    async with open_database(elsewhere) as copy:
        (key,) = await copy.read(lambda transaction: keys_of(transaction, app))
    assert key.ends_at is not None
    assert key.ends_at >= before


@pytest.mark.parametrize("engine", ["postgresql"])
async def test_a_restore_leaves_out_what_belongs_to_others(
    database_url: str, raw_sql: RawSql, elsewhere: str, tmp_path: Path
) -> None:
    """Extensions and grants of an administrator need rights, or roles, that Ousel may not have."""
    role = f"reporting_{new_id('x', system_clock)[-8:]}"
    await raw_sql.run(f"CREATE ROLE {role}")
    await raw_sql.run(f"GRANT SELECT ON accounts TO {role}")
    others = "SELECT name FROM pg_available_extensions WHERE name IN ('pgcrypto', 'vector')"
    for (extension,) in await raw_sql.run(others):  # some servers have none
        await raw_sql.run(f"CREATE EXTENSION {extension}")
    file = tmp_path / "books.backup"
    backed_up = await asyncio.to_thread(ousel, "backup", str(file), database=database_url)
    assert backed_up.exit_code == 0, backed_up.errors
    await raw_sql.run(f"REVOKE ALL ON accounts FROM {role}")
    await raw_sql.run(f"DROP ROLE {role}")

    restored = await asyncio.to_thread(ousel, "restore", str(file), database=elsewhere)

    assert restored.exit_code == 0, restored.errors
    async with RawSql(elsewhere) as other:
        assert await other.run("SELECT extname FROM pg_extension") == [("plpgsql",)]


@pytest.mark.parametrize("engine", ["postgresql"])
async def test_tables_in_a_schema_that_is_not_used_are_not_taken_for_an_empty_ledger(
    database_url: str, elsewhere: str, tmp_path: Path
) -> None:
    """The restore fails, and no empty tables are created beside the restored ones."""
    file = tmp_path / "books.backup"
    await asyncio.to_thread(ousel, "backup", str(file), database=database_url)
    async with RawSql(elsewhere) as raw_sql:  # by default, the schema with the role's name is used
        await raw_sql.run("CREATE SCHEMA AUTHORIZATION CURRENT_USER")

    failed = await asyncio.to_thread(ousel, "restore", str(file), database=elsewhere)

    assert_fails(failed, "the backup's tables are not in the schema that this address uses")
    async with RawSql(elsewhere) as raw_sql:
        found = await raw_sql.run("SELECT schemaname FROM pg_tables WHERE tablename = 'entries'")
    assert found == [("public",)]


@pytest.mark.usefixtures("usual_signals")
@pytest.mark.parametrize("engine", ["postgresql"])
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGHUP])
def test_a_restore_that_is_stopped_does_not_go_on(
    stop: signal.Signals, elsewhere: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL's own tool, which fills the database, ends with the command."""
    tool, started, file = (tmp_path / name for name in ("pg_restore", "started", "books.backup"))
    tool.write_text(SLOW_PG_RESTORE.format(folder=tmp_path))
    tool.chmod(0o755)
    file.touch()
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    command = subprocess.Popen([str(OUSEL), "restore", str(file), "--database", elsewhere])
    wait_until(lambda: started.exists() and started.read_text().endswith("\n"))
    restoring = int(started.read_text())
    try:
        command.send_signal(stop)
        assert command.wait(PROCESS_SECONDS_MAX) == 128 + stop
        with pytest.raises(ProcessLookupError):
            os.kill(restoring, 0)
    finally:
        with suppress(ProcessLookupError):
            os.kill(restoring, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["sqlite"])
@pytest.mark.parametrize("extra_bytes", [0, 20_000_000], ids=["one step", "several steps"])
def test_a_restore_that_is_interrupted_leaves_the_database_empty(
    database_url: str, elsewhere: str, monkeypatch: pytest.MonkeyPatch, extra_bytes: int
) -> None:
    """Otherwise sessions that the restore has not ended yet would be valid again."""
    with closing(sqlite3.connect(database_url)) as original:
        original.execute("CREATE TABLE large AS SELECT zeroblob(?)", (extra_bytes,))
        original.commit()

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=InterruptedConnection))
        with pytest.raises(KeyboardInterrupt):
            restore(elsewhere, Path(database_url))

    with closing(sqlite3.connect(elsewhere)) as copy:
        assert copy.execute("SELECT name FROM sqlite_master").fetchall() == []
    assert ousel("restore", database_url, database=elsewhere).exit_code == 0


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_signal_ends_the_check_of_a_restored_copy(
    database_url: str, elsewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large copy, it takes minutes. The database is left empty."""
    connect = partial(sqlite3.connect, factory=SlowlyCheckedConnection)
    with monkeypatch.context() as patch, clean_up_on_signal():
        patch.setattr(sqlite3, "connect", connect)
        with pytest.raises(SystemExit) as ended:
            restore(elsewhere, Path(database_url))

    assert ended.value.code == 128 + signal.SIGTERM
    assert not SlowlyCheckedConnection.was_checked_to_the_end
    assert Path(elsewhere).stat().st_size == 0


@pytest.mark.parametrize("engine", ["sqlite"])
@pytest.mark.parametrize("journal_mode", ["DELETE", "WAL"])
def test_a_backup_is_restored_from_a_folder_where_nothing_can_be_written(
    database_url: str, elsewhere: str, tmp_path: Path, journal_mode: str
) -> None:
    """Nothing is written beside the backup, even if it is in WAL mode, as they once were."""
    folder = tmp_path / "backups"
    folder.mkdir()
    file = folder / "books.backup"
    assert ousel("verify", database=database_url).exit_code == 0  # the file is in WAL mode now
    assert ousel("backup", str(file), database=database_url).exit_code == 0
    with closing(sqlite3.connect(file)) as written:
        assert written.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        written.execute(f"PRAGMA journal_mode = {journal_mode}")
    file.chmod(0o400)
    folder.chmod(0o500)

    restored = ousel("restore", "--json", str(file), database=elsewhere)

    folder.chmod(0o700)  # else an ordinary user could not remove it
    assert restored.json["accounts"] == 1
    assert list(folder.iterdir()) == [file]


@pytest.mark.one_engine
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_root_restores_for_the_owner_of_the_folder(database_url: str, tmp_path: Path) -> None:
    """The server usually runs as another user, who must be able to open the file."""
    file = tmp_path / "books.backup"
    assert ousel("backup", str(file), database=database_url).exit_code == 0
    folder = tmp_path / "state"
    folder.mkdir()
    os.chown(folder, 10_001, 10_002)
    assert ousel("restore", str(file), database=str(folder / "new.db")).exit_code == 0
    owners = {(each.stat().st_uid, each.stat().st_gid) for each in folder.iterdir()}
    assert owners == {(10_001, 10_002)}


def test_a_backup_is_restored_into_an_empty_database_only(
    database_url: str, tmp_path: Path
) -> None:
    """A database with a schema is refused."""
    file = tmp_path / "books.backup"
    assert ousel("backup", str(file), database=database_url).exit_code == 0
    ended = ousel("restore", str(file), database=database_url)
    assert ended.exit_code == 1
    assert "not empty" in ended.errors


def test_a_backup_of_an_older_version_is_restored_to_todays_schema(
    elsewhere: str, engine: Engine, engines: Engines, tmp_path: Path
) -> None:
    """It is of use at once, and nobody takes its age for a failure."""
    old, file = engines.empty_url(engine, tmp_path), tmp_path / "old.backup"
    from alembic import command

    with mock.patch.object(command, "upgrade", partial(_upgraded_before, command.upgrade)):
        assert ousel("migrate", database=old).exit_code == 0
    assert_fails(ousel("verify", database=old), f"the schema is at {VERSION_BEFORE}")
    assert ousel("backup", str(file), database=old).exit_code == 0

    assert ousel("restore", "--json", str(file), database=elsewhere).json["accounts"] == 1
    assert ousel("verify", database=elsewhere).exit_code == 0


def test_a_backup_of_something_else_is_not_restored(
    engine: Engine, elsewhere: str, engines: Engines, tmp_path: Path
) -> None:
    """A file without books is refused before anything is written."""
    file = tmp_path / "other.backup"
    _back_up_nothing(engines.empty_url(engine, tmp_path), file)

    assert_fails(ousel("restore", str(file), database=elsewhere), "contains no Ousel ledger")


@pytest.mark.parametrize("engine", ["sqlite"])
@pytest.mark.parametrize("damage", ["cut off", "overwritten"])
def test_what_is_damaged_is_neither_restored_nor_backed_up(
    database_url: str, elsewhere: str, tmp_path: Path, damage: str
) -> None:
    """Even if the books themselves balance; nothing is left of the attempt."""
    whole, damaged, copy = (tmp_path / name for name in ("whole", "damaged", "copy"))
    with closing(sqlite3.connect(database_url)) as original:
        original.execute("CREATE TABLE other (value TEXT UNIQUE)")
        original.executemany("INSERT INTO other VALUES (?)", ((f"{n:99}",) for n in range(9_999)))
        original.commit()
    assert ousel("backup", str(whole), database=database_url).exit_code == 0
    content = whole.read_bytes()[:-2_000]  # the last page is one of the other table or its index
    damaged.write_bytes(content if damage == "cut off" else content + bytes(2_000))

    restored = ousel("restore", str(damaged), database=elsewhere)
    backed_up = ousel("backup", str(copy), database=str(damaged))

    for failed in (restored, backed_up):
        assert_fails(failed, f"{damaged} is damaged: SQLite says “")
    assert not copy.exists()
    assert ousel("restore", str(whole), database=elsewhere).exit_code == 0


@pytest.mark.one_engine
def test_others_cannot_read_a_database_that_is_restored_into_an_empty_file(
    database_url: str, tmp_path: Path
) -> None:
    """Its group still can, if it could read the empty file."""
    file, target = tmp_path / "books.backup", tmp_path / "new.db"
    assert ousel("backup", str(file), database=database_url).exit_code == 0
    target.touch()
    target.chmod(0o644)
    assert ousel("restore", str(file), database=str(target)).exit_code == 0
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_missing_backup_is_reported(elsewhere: str, tmp_path: Path) -> None:
    """A missing file is one clear line."""
    ended = ousel("restore", str(tmp_path / "none"), database=elsewhere)
    assert ended.exit_code == 1
    assert "there is no backup" in ended.errors


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_missing_folder_of_a_restored_database_is_named(
    database_url: str, tmp_path: Path
) -> None:
    """On PostgreSQL, a restore needs no folder."""
    file, missing = tmp_path / "books.backup", tmp_path / "none"
    assert ousel("backup", str(file), database=database_url).exit_code == 0

    failed = ousel("restore", str(file), database=f"sqlite:///{missing}/ousel.db")

    assert_fails(failed, f"there is no folder {missing}\n")


def _upgraded_before(upgrade: "Callable[[Config, str], None]", given: "Config", _: str) -> None:
    upgrade(given, VERSION_BEFORE)


def _back_up_nothing(url: str, file: Path) -> None:
    if is_postgres(url):
        subprocess.run(["pg_dump", "--format=custom", f"--file={file}", url], check=True)
    else:
        file.touch()


async def _add_session(transaction: Transaction, account_id: str) -> None:
    session = Session("hash", account_id, "signed_in", 1, 1, 2**60, "::1", "Firefox", 1)
    await add_session(transaction, session)
