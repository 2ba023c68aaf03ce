"""SQLite's log cannot be flushed: a commit is undone, or its outcome is unknown."""

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ousel.database.port import Transaction
from ousel.database.sqlite import SqliteDatabase, wal_path
from ousel.kernel.errors import DatabaseUnavailable, OutcomeUnknown
from tests.database.sample_rows import SAMPLE_TABLE, add_row, committed_rows
from tests.support.faulty_disk import Operation, let_logs_fail
from tests.support.waiting import until


class FaultyLog:
    """Decides which operations on SQLite's log fail, from first to last."""

    def __init__(self) -> None:
        self.failing: set[Operation] = set()  # as long as they are in it
        self.flush_failures = 0  # how many of the next flushes fail
        self.writable_afterwards = True

    def fails(self, operation: Operation) -> bool:
        """Return whether this operation fails now."""
        if operation == "flush" and self.flush_failures:
            self.flush_failures -= 1
            if not self.writable_afterwards:
                self.failing.add("write")
            return True
        return operation in self.failing


@pytest.fixture
def faulty_log() -> Iterator[FaultyLog]:
    """The log of every SQLite database that is opened during this test."""
    faulty = FaultyLog()
    end = let_logs_fail(faulty.fails)
    yield faulty
    faulty.failing.clear()
    end()


@pytest.fixture
async def sqlite(faulty_log: FaultyLog, sqlite_file: Path) -> AsyncIterator[SqliteDatabase]:
    """A fresh database with this log, open, and with a first row."""
    opened = SqliteDatabase(sqlite_file)
    await opened.open()
    await opened.write(lambda transaction: add_row(transaction, "first"))
    yield opened
    faulty_log.failing.clear()
    await opened.close()


def rows_after_a_crash(path: Path, folder: Path) -> list[str]:
    """Return the rows that a new process finds after all others were killed at this moment."""
    copy = folder / "crashed.db"
    shutil.copy(path, copy)
    shutil.copy(wal_path(path), wal_path(copy))
    with closing(sqlite3.connect(copy)) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM deployment")]


async def test_a_commit_that_could_not_be_flushed_is_undone(
    sqlite: SqliteDatabase, sqlite_file: Path, faulty_log: FaultyLog, tmp_path: Path
) -> None:
    """It is refused as not written, and does not come back after a crash."""
    faulty_log.flush_failures = 1
    with pytest.raises(DatabaseUnavailable, match="IOERR_FSYNC"):
        await sqlite.write(lambda transaction: add_row(transaction, "second"))

    assert rows_after_a_crash(sqlite_file, tmp_path) == ["first"]
    assert list(await committed_rows(sqlite)) == ["first"]
    assert not sqlite.connections().writes_suspended
    await sqlite.write(lambda transaction: add_row(transaction, "third"))
    assert rows_after_a_crash(sqlite_file, tmp_path) == ["first", "third"]


async def test_a_large_commit_that_could_not_be_flushed_is_undone(
    sqlite: SqliteDatabase, sqlite_file: Path, faulty_log: FaultyLog, tmp_path: Path
) -> None:
    """None of its many pages come back."""

    async def add_rows(transaction: Transaction) -> None:
        await transaction.insert(SAMPLE_TABLE, ((f"{n}", "x" * 1000) for n in range(100)))

    faulty_log.flush_failures = 1
    with pytest.raises(DatabaseUnavailable):
        await sqlite.write(add_rows)

    assert rows_after_a_crash(sqlite_file, tmp_path) == ["first"]


@pytest.mark.parametrize("writable", [True, False])
async def test_a_commit_that_cannot_be_undone_has_an_unknown_outcome(
    sqlite: SqliteDatabase, faulty_log: FaultyLog, *, writable: bool
) -> None:
    """Then writes are refused until the log can be flushed again, while reads continue."""
    faulty_log.writable_afterwards = writable
    faulty_log.flush_failures = 1
    faulty_log.failing = {"flush"}
    with pytest.raises(OutcomeUnknown) as unknown:
        await sqlite.write(lambda transaction: add_row(transaction, "second"))
    assert unknown.value.retry_after_seconds == 1

    with pytest.raises(DatabaseUnavailable, match="writes are refused"):
        await sqlite.write(lambda transaction: add_row(transaction, "third"))
    assert sqlite.connections().writes_suspended
    assert list(await committed_rows(sqlite)) == ["first"]

    faulty_log.failing = set()
    await until(lambda: not sqlite.connections().writes_suspended)
    await sqlite.write(lambda transaction: add_row(transaction, "fourth"))
    assert list(await committed_rows(sqlite)) == ["first", "fourth"]


async def test_what_could_not_be_overwritten_may_come_back(
    sqlite: SqliteDatabase, sqlite_file: Path, faulty_log: FaultyLog, tmp_path: Path
) -> None:
    """This is why its outcome is unknown: after a crash, it has happened."""
    faulty_log.writable_afterwards = False
    faulty_log.flush_failures = 1
    with pytest.raises(OutcomeUnknown):
        await sqlite.write(lambda transaction: add_row(transaction, "second"))

    assert rows_after_a_crash(sqlite_file, tmp_path) == ["first", "second"]


async def test_work_that_can_find_out_the_outcome_is_not_repeated_on_a_failing_disk(
    sqlite: SqliteDatabase, faulty_log: FaultyLog
) -> None:
    """Its caller is told at once that the outcome is unknown."""
    attempts = []
    faulty_log.failing = {"flush"}

    async def work(transaction: Transaction) -> None:
        attempts.append(transaction.follows_unknown_commit)
        await add_row(transaction, "second")

    with pytest.raises(OutcomeUnknown):
        await sqlite.write(work, resolves_unknown_commit=True)

    assert attempts == [False]


async def test_a_canceled_caller_leaves_no_failed_commit_behind(
    sqlite: SqliteDatabase, faulty_log: FaultyLog
) -> None:
    """Writes are suspended although the caller no longer waits for the commit."""
    faulty_log.failing = {"flush"}
    committing = asyncio.Event()

    async def write() -> None:
        await sqlite.write(
            lambda transaction: add_row(transaction, "second"), before_commit=committing.set
        )

    caller = asyncio.create_task(write())
    await committing.wait()
    caller.cancel()
    await asyncio.wait({caller})

    assert isinstance(caller.exception(), OutcomeUnknown)
    assert sqlite.connections().writes_suspended
