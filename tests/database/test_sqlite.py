"""SQLite: one writer, readers beside it, and other processes that lock the file."""

import asyncio
import contextlib
import sqlite3
import sys
import threading
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest

from ousel.database.port import Transaction
from ousel.database.sqlite import SqliteDatabase
from ousel.database.statements import Statement
from ousel.kernel.errors import DatabaseUnavailable
from tests.database.sample_rows import SAMPLE_TABLE, add_row, committed_rows, fetch_rows
from tests.support.slow_commits import HeldCommits
from tests.support.waiting import WAIT_SECONDS_MAX, assert_none_ends, until

LONG = Statement(
    "a statement that takes a while",
    "WITH RECURSIVE numbers(number) AS"
    " (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < 100000)"
    " SELECT count(*) FROM numbers",
)
HOLD_THE_FILE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
connection.execute("INSERT INTO deployment VALUES ('theirs', '')")
print("held", flush=True)
sys.stdin.read()
connection.execute("COMMIT")
"""


@pytest.fixture
def commits(sqlite: SqliteDatabase) -> Iterator[HeldCommits]:
    """The commits of the database, which do not end before the test lets them."""
    held = HeldCommits(sqlite)
    yield held
    held.release()


@contextlib.asynccontextmanager
async def locked_by_another_process(path: Path) -> AsyncIterator[asyncio.StreamWriter]:
    """Let another process hold a write transaction open until its input is closed."""
    command = [sys.executable, "-c", HOLD_THE_FILE, str(path)]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    assert process.stdout is not None
    assert process.stdin is not None
    assert await process.stdout.readline() == b"held\n"
    yield process.stdin
    process.stdin.close()
    assert await process.wait() == 0


async def test_a_snapshot_ends_if_its_caller_gives_up(sqlite: SqliteDatabase) -> None:
    """Otherwise a command that verifies a large ledger could not be stopped."""
    begun, ended, may_end = threading.Event(), threading.Event(), threading.Event()

    async def read_forever(transaction: Transaction) -> None:
        begun.set()
        try:
            while not may_end.is_set():
                await transaction.fetch(LONG)
        finally:
            ended.set()

    reading = asyncio.create_task(sqlite.snapshot(read_forever))
    assert await asyncio.to_thread(begun.wait, WAIT_SECONDS_MAX)
    reading.cancel()

    with pytest.raises(asyncio.CancelledError):
        await reading
    has_ended = await asyncio.to_thread(ended.wait, WAIT_SECONDS_MAX)
    may_end.set()
    assert has_ended


async def test_a_write_waits_for_another_process(sqlite: SqliteDatabase, sqlite_file: Path) -> None:
    """While another process writes, our write waits, and reads continue."""
    async with locked_by_another_process(sqlite_file) as holder:
        ours = asyncio.create_task(sqlite.write(lambda transaction: add_row(transaction, "ours")))
        await assert_none_ends(ours, seconds=0.1)
        assert await committed_rows(sqlite) == {}
        assert not ours.done()
        holder.close()
        await ours

    assert await committed_rows(sqlite) == {"ours": "", "theirs": ""}


async def test_a_file_that_stays_locked_is_unavailable(
    sqlite_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After five attempts the write is refused, and nothing of it remains."""
    monkeypatch.setattr("ousel.database.sqlite.BUSY_SECONDS_MAX", 0.02)
    sqlite = SqliteDatabase(sqlite_file)
    await sqlite.open()
    async with locked_by_another_process(sqlite_file):
        with pytest.raises(DatabaseUnavailable, match="Another process has locked") as refused:
            await sqlite.write(lambda transaction: add_row(transaction, "ours"))

    assert refused.value.retry_after_seconds == 1
    assert await committed_rows(sqlite) == {"theirs": ""}
    await sqlite.write(lambda transaction: add_row(transaction, "ours"))
    assert await committed_rows(sqlite) == {"ours": "", "theirs": ""}
    await sqlite.close()


async def test_a_slow_flush_does_not_delay_reads(
    sqlite: SqliteDatabase, commits: HeldCommits
) -> None:
    """While one write is flushed to disk, reads continue, and other writes wait for it."""
    writes = [
        asyncio.create_task(sqlite.write(partial(add_row, name=name)))
        for name in ("first", "second")
    ]
    await until(lambda: commits.begun)
    assert await committed_rows(sqlite) == {}
    assert commits.begun == 1

    commits.release()
    await asyncio.gather(*writes)
    assert commits.begun == 2
    assert await committed_rows(sqlite) == {"first": "", "second": ""}


async def test_a_write_that_waits_too_long_for_its_turn_is_refused(
    sqlite: SqliteDatabase, commits: HeldCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flush that hangs keeps nobody waiting for ever; what was refused is not written later."""
    first = asyncio.create_task(sqlite.write(partial(add_row, name="first")))
    await until(lambda: commits.begun)
    monkeypatch.setattr("ousel.database.sqlite.TURN_SECONDS_MAX", 0.02)
    with pytest.raises(DatabaseUnavailable, match="Earlier transactions take too long"):
        await sqlite.write(partial(add_row, name="second"))

    commits.release()
    await first
    assert await committed_rows(sqlite) == {"first": ""}


async def test_a_write_canceled_during_its_commit_is_complete(
    sqlite: SqliteDatabase, commits: HeldCommits
) -> None:
    """A caller that is canceled during its commit ends after it, and the next write succeeds."""
    given_up = asyncio.create_task(sqlite.write(partial(add_row, name="given up")))
    await until(lambda: commits.begun)
    given_up.cancel()
    commits.release()
    await sqlite.write(partial(add_row, name="next"))

    assert given_up.cancelled()
    assert await committed_rows(sqlite) == {"given up": "", "next": ""}


async def test_two_databases_on_one_file_take_turns(
    sqlite: SqliteDatabase, sqlite_file: Path
) -> None:
    """If a server and a command write to the same file, nothing is lost."""
    other = SqliteDatabase(sqlite_file)
    await other.open()

    async def writes(database: SqliteDatabase, name: str) -> None:
        for number in range(30):
            await database.write(partial(add_row, name=f"{name} {number}"))

    await asyncio.gather(writes(sqlite, "one"), writes(other, "other"))

    assert len(await committed_rows(other)) == 60
    await other.close()


async def test_work_that_waits_for_something_else_is_refused(sqlite: SqliteDatabase) -> None:
    """A transaction that waited for the network would block the only writer."""

    async def work(transaction: Transaction) -> None:
        await add_row(transaction, "a")
        await asyncio.sleep(0)

    with pytest.raises(AssertionError, match="must await nothing but the transaction"):
        await sqlite.write(work)

    assert await committed_rows(sqlite) == {}


async def test_reads_cannot_write(sqlite: SqliteDatabase) -> None:
    """The connection for reads refuses to change anything."""
    with pytest.raises(DatabaseUnavailable, match="SQLITE_READONLY"):
        await sqlite.read(lambda transaction: add_row(transaction, "a"))

    assert await committed_rows(sqlite) == {}


async def test_every_commit_is_flushed_to_disk(sqlite: SqliteDatabase) -> None:
    """The writer runs with a write-ahead log and full flushes."""

    async def pragmas(transaction: Transaction) -> list[object]:
        names = ("journal_mode", "synchronous", "foreign_keys")
        rows = [await transaction.fetch(Statement(name, f"PRAGMA {name}")) for name in names]
        return [row[0][0] for row in rows]

    assert await sqlite.write(pragmas) == ["wal", 2, 1]


async def test_a_full_disk_is_unavailable(sqlite: SqliteDatabase) -> None:
    """DatabaseUnavailable has a time to retry, nothing is written, and reads continue."""

    async def limit(transaction: Transaction, pages: int) -> None:
        await transaction.fetch(Statement("limit", f"PRAGMA max_page_count = {pages}"))

    async def fill(transaction: Transaction) -> None:
        await transaction.insert(
            SAMPLE_TABLE, [(f"note {number}", "x" * 3000) for number in range(50)]
        )

    await sqlite.write(lambda transaction: limit(transaction, 1))
    with pytest.raises(DatabaseUnavailable, match="SQLITE_FULL") as refused:
        await sqlite.write(fill)

    assert refused.value.retry_after_seconds == 5
    assert await committed_rows(sqlite) == {}
    await sqlite.write(lambda transaction: limit(transaction, 1_000_000))
    await sqlite.write(fill)
    assert len(await committed_rows(sqlite)) == 50


@pytest.fixture
def mounted_file(sqlite_file: Path) -> Path:
    """A database in its own folder."""
    folder = sqlite_file.parent / "mounted"
    folder.mkdir()
    return sqlite_file.rename(folder / "ousel.db")


async def test_a_file_whose_folder_is_gone_is_unavailable(mounted_file: Path) -> None:
    """A snapshot opens the file by its path; if that is gone, the operator has to act."""
    sqlite = SqliteDatabase(mounted_file)
    await sqlite.open()
    mounted_file.parent.rename(mounted_file.parents[1] / "gone")

    with pytest.raises(DatabaseUnavailable, match="moved, removed or replaced") as refused:
        await sqlite.snapshot(fetch_rows)

    assert refused.value.retry_after_seconds == 5
    await sqlite.close()


def move_away(path: Path, *, replaced: bool) -> Path:
    """Move a file away, and put a copy in its place if asked; return where it is now."""
    moved_file = path.rename(path.with_name("aside.db"))
    if replaced:
        path.write_bytes(moved_file.read_bytes())
    return moved_file


@pytest.mark.parametrize("replaced", [False, True], ids=["moved away", "replaced"])
async def test_nothing_is_written_to_a_file_that_was_moved(
    sqlite: SqliteDatabase, sqlite_file: Path, *, replaced: bool
) -> None:
    """SQLite itself would continue to write to the moved or deleted file."""
    await sqlite.write(lambda transaction: add_row(transaction, "before"))
    moved_file = move_away(sqlite_file, replaced=replaced)

    with pytest.raises(DatabaseUnavailable, match="moved, removed or replaced"):
        await sqlite.read(fetch_rows)
    with pytest.raises(DatabaseUnavailable, match="moved, removed or replaced"):
        await sqlite.snapshot(fetch_rows)
    with pytest.raises(DatabaseUnavailable, match="moved, removed or replaced"):
        sqlite.version()  # otherwise values of the old file would stay in use
    with pytest.raises(DatabaseUnavailable, match="moved, removed or replaced"):
        await sqlite.write(lambda transaction: add_row(transaction, "meanwhile"))

    moved_file.rename(sqlite_file)
    await sqlite.write(lambda transaction: add_row(transaction, "after"))
    assert {"before", "after"} <= set(await committed_rows(sqlite))
    assert "meanwhile" not in await committed_rows(sqlite)
    assert await sqlite.snapshot(fetch_rows) == await committed_rows(sqlite)


@pytest.fixture
def damaged_file(sqlite_file: Path) -> Path:
    """A database in which the pages of one table are overwritten."""
    connection = sqlite3.connect(sqlite_file)
    pages = "SELECT rootpage FROM sqlite_master WHERE tbl_name = 'deployment'"
    page_bytes = connection.execute("PRAGMA page_size").fetchone()[0]
    numbers = [row[0] for row in connection.execute(pages)]
    connection.close()
    content = bytearray(sqlite_file.read_bytes())
    for number in numbers:
        content[(number - 1) * page_bytes : number * page_bytes] = b"\xff" * page_bytes
    sqlite_file.write_bytes(content)
    return sqlite_file


async def test_a_file_that_cannot_be_opened_is_closed_again(tmp_path: Path) -> None:
    """If the file is not a database, no connection to it stays open."""
    other = tmp_path / "other.db"
    other.write_bytes(b"this is no database" * 1000)

    with pytest.raises(DatabaseUnavailable, match="cannot be opened") as refused:
        await SqliteDatabase(other).open()

    assert not _is_held(other), refused.value


async def test_a_damaged_file_is_unavailable(damaged_file: Path) -> None:
    """If pages of the file are damaged, every call raises DatabaseUnavailable."""
    sqlite = SqliteDatabase(damaged_file)
    await sqlite.open()

    for run in (sqlite.read, sqlite.snapshot, sqlite.write):
        with pytest.raises(DatabaseUnavailable, match="SQLITE_CORRUPT"):
            await run(fetch_rows)
    await sqlite.close()


async def test_a_missing_folder_is_unavailable(tmp_path: Path) -> None:
    """A path in a folder that does not exist is refused clearly."""
    sqlite = SqliteDatabase(tmp_path / "nowhere" / "ousel.db")

    with pytest.raises(DatabaseUnavailable, match="cannot be opened"):
        await sqlite.open()
    await sqlite.close()


def _is_held(file: Path) -> bool:
    """Return whether this process has the file open."""
    return file.resolve() in {each.resolve() for each in Path("/proc/self/fd").iterdir()}
