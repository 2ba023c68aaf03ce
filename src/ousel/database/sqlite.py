"""SQLite, the embedded default: one writer at a time, concurrent readers, WAL, full flushes.

Work is written as coroutines for both engines. On SQLite no statement ever suspends, so all
statements of a transaction, which take microseconds, run in one step on the event loop. Only the
commit runs on a thread of its own, where a slow flush delays only other writes.
"""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from ousel.database.commit_thread import CommitThread
from ousel.database.port import Connections, IntegrityViolation, Result, Work
from ousel.database.retries import TransientFailure, with_retries
from ousel.database.sqlite_transaction import STATEMENTS_CACHED, SqliteTransaction
from ousel.database.statements import UnstorableValue
from ousel.database.suspension import WriteSuspension
from ousel.kernel.deadlines import check_deadline
from ousel.kernel.errors import DatabaseUnavailable, OutcomeUnknown

BUSY_SECONDS_MAX: Final = 5.0
BUSY_PAUSE_SECONDS: Final = 0.005
TURN_SECONDS_MAX: Final = 10.0
INSTRUCTIONS_BETWEEN_CHECKS: Final = 10_000  # SQLite runs so many, then asks whether to stop

_WRITER_PRAGMAS: Final = (
    "PRAGMA synchronous = FULL",
    "PRAGMA cache_size = -65536",
    "PRAGMA temp_store = MEMORY",
    # Checkpoints are part of commits. One that runs beside a commit of another connection would
    # delay commits less, but may damage the file before SQLite 3.51.3 (the WAL-reset bug).
    "PRAGMA wal_autocheckpoint = 4000",
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA busy_timeout = 0",  # _begin waits without blocking the event loop
)

_FileIdentity = tuple[int, int]  # device and inode

_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
# If a commit fails with one of these codes, its last page did not get into the log.
_UNWRITTEN: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE})
_DRIVER_ERRORS: Final = (sqlite3.DatabaseError, UnicodeEncodeError, OverflowError)


class SqliteDatabase:
    """A file, with one connection for writes and one for reads."""

    def __init__(self, path: Path) -> None:
        """Use the file at this path; `open` creates it if it does not exist."""
        self._path = path
        self._write_lock = asyncio.Lock()
        self._commits: CommitThread | None = None
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._version: int | None = None
        self._file: _FileIdentity | None = None
        self._suspension = WriteSuspension(self._probe)

    async def open(self) -> None:
        """Open the file, or raise DatabaseUnavailable."""
        _check_orphaned_log(self._path)
        try:
            self._writer = _connect(self._path)
            if not _is_foreign(self._writer):
                self._writer.execute("PRAGMA journal_mode = WAL")
            for pragma in _WRITER_PRAGMAS:
                self._writer.execute(pragma)
            self._reader = _connect(self._path)
            self._reader.execute("PRAGMA query_only = ON")
            self._file = _file_identity(self._path)
            self._commits = CommitThread("sqlite-commits")
        except sqlite3.Error as error:
            await self.close()
            raise DatabaseUnavailable(
                f"The SQLite file {self._path} cannot be opened: {error}."
            ) from error

    async def close(self) -> None:
        """Close both connections, which writes the write-ahead log back into the file."""
        await self._suspension.close()
        if self._reader is not None:
            self._reader.close()
        if self._writer is not None:
            async with self._write_lock:
                self._writer.close()
        if self._commits is not None:
            self._commits.close()

    async def read(self, work: Work[Result]) -> Result:
        """Run reads, each of which sees all that was committed before it."""
        return await with_retries(lambda _: self._read(work))

    async def snapshot(self, work: Work[Result]) -> Result:
        """Run reads that all see the state of the database at their start.

        They may take long, so they have a thread and a connection of their own. If the caller gives
        up, the thread ends at the next statement that takes long.
        """
        gave_up = threading.Event()
        try:
            return await with_retries(lambda _: asyncio.to_thread(self._snapshot, work, gave_up))
        finally:
            gave_up.set()

    async def write(
        self,
        work: Work[Result],
        *,
        resolves_unknown_commit: bool = False,
        before_commit: Callable[[], None] | None = None,
        repeats_locked: bool = True,
    ) -> Result:
        """Run the work in a transaction, one writer at a time, and commit it."""
        return await with_retries(
            lambda follows_unknown_commit: self._transact(
                work, follows_unknown_commit, before_commit or check_deadline
            ),
            resolves_unknown_commit=resolves_unknown_commit,
            repeats_locked=repeats_locked,
        )

    def is_distributed(self) -> bool:
        """Return False: a database is one file."""
        return False

    def version(self) -> int | None:
        """Return a number that changes with every commit of any process.

        The number is read once per iteration of the event loop. That is recent enough: a request
        arrives before the iteration that handles it, so the number was read after it arrived.
        """
        if self._version is None:
            assert self._reader is not None, "the database is not open"
            self._check_file_unmoved()  # the version of a file that was moved never changes again
            try:
                self._version = int(self._reader.execute("PRAGMA data_version").fetchone()[0])
            except _DRIVER_ERRORS as error:
                failure = _translate(error)
                if isinstance(failure, TransientFailure):
                    failure = failure.refusal
                raise failure from error
            asyncio.get_running_loop().call_soon(self._clear_version)
        return self._version

    def connections(self) -> Connections:
        """Return how many of the two connections are in use: at most the one for writes."""
        assert self._writer is not None, "the database is not open"
        in_use = int(self._writer.in_transaction)
        return Connections(
            in_use=in_use, idle=2 - in_use, writes_suspended=self._suspension.is_suspended
        )

    def _clear_version(self) -> None:
        self._version = None

    async def _read(self, work: Work[Result]) -> Result:
        assert self._reader is not None, "the database is not open"
        self._check_file_unmoved()
        try:
            return _run_in_one_step(work, SqliteTransaction(self._reader))
        except _DRIVER_ERRORS as error:
            raise _translate(error) from error

    def _snapshot(self, work: Work[Result], gave_up: threading.Event) -> Result:
        # If another file is here now, a new connection would apply the old file's log to it.
        self._check_file_unmoved()
        try:
            with closing(_connect(self._path)) as connection:
                connection.set_progress_handler(gave_up.is_set, INSTRUCTIONS_BETWEEN_CHECKS)
                connection.execute("BEGIN")
                return _run_in_one_step(work, SqliteTransaction(connection))
        except _DRIVER_ERRORS as error:
            raise _translate(error) from error

    async def _transact(
        self,
        work: Work[Result],
        follows_unknown_commit: bool,  # noqa: FBT001 - as the retry policy calls it
        before_commit: Callable[[], None],
    ) -> Result:
        connection, commits = self._writer, self._commits
        assert connection is not None, "the database is not open"
        assert commits is not None, "the database is not open"
        await self._wait_for_turn()
        try:
            self._suspension.check()
            try:
                await _begin(connection)
                result = _run_in_one_step(
                    work,
                    SqliteTransaction(connection, follows_unknown_commit=follows_unknown_commit),
                )
                self._check_file_unmoved()
                before_commit()
                await commits.run(partial(_commit, connection))
            except OutcomeUnknown:
                self._suspension.suspend()
                raise
            except _DRIVER_ERRORS as error:
                _roll_back(connection)
                raise _translate(error) from error
            except BaseException:
                _roll_back(connection)
                raise
        finally:
            self._write_lock.release()
        return result

    async def _wait_for_turn(self) -> None:
        """Lock the writer, or refuse if the transactions before this one take too long."""
        try:
            async with asyncio.timeout(TURN_SECONDS_MAX):
                await self._write_lock.acquire()
        except TimeoutError:
            raise DatabaseUnavailable(
                "Earlier transactions take too long.", retry_after_seconds=1
            ) from None

    async def _probe(self) -> None:
        """Write over what a failed commit has left in the log."""
        assert self._writer is not None, "the database is not open"
        assert self._commits is not None, "the database is not open"
        async with self._write_lock:
            await self._commits.run(partial(_overwrite_failed_commit, self._writer))

    def _check_file_unmoved(self) -> None:
        """Refuse to use a file that is no longer at its path: what is written would be lost."""
        if _file_identity(self._path) != self._file:
            raise DatabaseUnavailable(
                "The SQLite file was moved, removed or replaced while it was open: put it back,"
                " or restart Ousel.",
                retry_after_seconds=5,
            )


def wal_path(path: Path) -> Path:
    """Return the path of the write-ahead log that belongs to the file at this path."""
    return path.with_name(f"{path.name}-wal")


def _check_orphaned_log(path: Path) -> None:
    """Refuse to create a file beside the log of a missing file: that would erase the log."""
    log = wal_path(path)
    if log.exists() and not path.exists():
        raise DatabaseUnavailable(
            f"There is no SQLite file at {path}, but its log {log.name} exists: put the file back,"
            " or move the log away as well."
        )


def _file_identity(path: Path) -> "_FileIdentity | None":
    """Return the identity of the file at this path, or None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path,
        timeout=BUSY_SECONDS_MAX,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=STATEMENTS_CACHED,
    )
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _is_foreign(connection: sqlite3.Connection) -> bool:
    """Return whether the file belongs to another program, so that it must not be changed."""
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    tables = {name for (name,) in rows}
    return bool(tables) and not tables >= {"alembic_version", "entries"}


async def _begin(connection: sqlite3.Connection) -> None:
    """Begin a transaction that writes, as soon as no other process is writing."""
    last_try = time.monotonic() + BUSY_SECONDS_MAX
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not _is_busy(error.sqlite_errorcode) or time.monotonic() > last_try:
                raise
            await asyncio.sleep(BUSY_PAUSE_SECONDS)
        else:
            return


def _commit(connection: sqlite3.Connection) -> None:
    """Commit; undo a commit that failed, or raise OutcomeUnknown if that fails as well.

    A commit writes its pages to the log and then flushes it. If the flush fails, SQLite reports
    an error and ignores these pages. But they are complete, so the next process that opens the
    file after a crash would take them for a commit. Only writing over these pages undoes that
    commit.
    """
    try:
        connection.execute("COMMIT")
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode in _UNWRITTEN or _is_busy(error.sqlite_errorcode):
            raise
        try:
            _overwrite_failed_commit(connection)
        except sqlite3.DatabaseError as overwriting:
            raise OutcomeUnknown(
                f"SQLite could neither complete a commit nor undo it ({error.sqlite_errorname}).",
                retry_after_seconds=1,
            ) from overwriting
        raise


def _overwrite_failed_commit(connection: sqlite3.Connection) -> None:
    """Commit a page that has not changed; in the log it replaces the first one of a failed commit.

    The other pages of that commit then have the wrong checksums, so nothing reads them.
    """
    _roll_back(connection)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("PRAGMA user_version = 0")  # Ousel does not use this number
        connection.execute("COMMIT")
    finally:
        _roll_back(connection)


def _run_in_one_step(work: Work[Result], transaction: SqliteTransaction) -> Result:
    """Run the coroutine to its end in one step: a transaction on SQLite never suspends."""
    coroutine = cast("Coroutine[Any, Any, Result]", work(transaction))
    try:
        coroutine.send(None)
    except StopIteration as end:
        return cast("Result", end.value)
    coroutine.close()
    raise AssertionError("work in a transaction must await nothing but the transaction")


def _is_busy(code: int) -> bool:
    return code & 0xFF in _BUSY


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _translate(error: Exception) -> Exception:
    if isinstance(error, sqlite3.IntegrityError):
        return IntegrityViolation(str(error))
    code = getattr(error, "sqlite_errorcode", None)
    if code is None or isinstance(error, sqlite3.DataError):  # the value did not reach SQLite
        return UnstorableValue(str(error))
    if _is_busy(code):
        return TransientFailure(
            DatabaseUnavailable("Another process has locked the database.", retry_after_seconds=1)
        )
    reason = getattr(error, "sqlite_errorname", "unknown")
    return DatabaseUnavailable(f"SQLite could not read or write ({reason}).", retry_after_seconds=5)
