"""A simulated `sqlite3` driver, on which the real `ousel.database.sqlite` runs.

A file has one writer at a time. A commit becomes visible when its flush ends. If the flush fails,
or the process is killed meanwhile, the pages of the commit may be in the log all the same. The next
commit overwrites them; but if all processes end before that, the next one to open the file finds
them, and the commit comes back.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, TypeVar

from tests.simulation.loop import SimulatedLoop
from tests.simulation.store import Commit, CommitObserver, Store, Write
from tests.simulation.trace import Trace

Result = TypeVar("Result")

_WRITES = ("INSERT", "UPDATE", "DELETE")


class SqliteFile:
    """The file and its log: what all connections to it share."""

    def __init__(self, store: Store, random: Random, trace: Trace) -> None:
        self.store = store
        self.random = random
        self.trace = trace
        self.observers: list[CommitObserver] = []
        self.writer: object | None = None  # the connection that holds the write lock
        self.connections: set[SimulatedConnection] = set()
        self.unflushed: Commit | None = None  # in the log, though nobody was told that it is
        self.flush_errors = 0.0  # how likely it is that a flush fails
        self.flush_seconds = 0.001

    def open(self, process: object) -> "SimulatedConnection":
        """Open the file; whoever opens it first reads the log to its end."""
        if not self.connections and self.unflushed is not None:
            commit, self.unflushed = self.unflushed, None
            self.trace.add("an unflushed commit comes back")
            self.apply(commit)
        return SimulatedConnection(self, process)

    def apply(self, commit: Commit) -> None:
        """Make a commit visible; it overwrites what was unflushed in the log."""
        self.store.commit(commit)
        self.unflushed = None
        for observe in self.observers:
            observe(commit)

    def fail_flush(self, commit: Commit) -> None:
        """Raise the error of a flush; what the commit wrote to the log may stay there."""
        stays = self.random.random() < 0.5
        self.trace.add("a flush fails", "and the commit stays in the log" if stays else "")
        if commit.writes or not stays:
            self.unflushed = commit if stays else None
        raise driver_error("disk I/O error", sqlite3.SQLITE_IOERR_FSYNC, "SQLITE_IOERR_FSYNC")

    def kill(self, process: object) -> None:
        """End the connections of a process; a commit on its way may be in the log."""
        for connection in [each for each in self.connections if each.process is process]:
            if connection.is_committing and self.random.random() < 0.5:
                self.unflushed = connection.pending_commit()
            connection.abandon()


class SimulatedConnection:
    """Has the methods of `sqlite3.Connection` that Ousel uses."""

    def __init__(self, file: SqliteFile, process: object) -> None:
        self._file = file
        self.process = process
        self.in_transaction = False
        self.is_committing = False
        self._writes: list[Write] = []
        self._overwrites = False  # the transaction writes a page, in which nothing changes
        file.connections.add(self)

    def execute(self, text: str, arguments: Sequence[Any] = ()) -> "Cursor":
        """Run a statement."""
        if self not in self._file.connections:
            return Cursor([], 0)  # the process is gone
        match text.split(maxsplit=1)[0]:
            case "PRAGMA":
                return self._pragma(text)
            case "BEGIN":
                self._begin()
            case "COMMIT":
                self._commit()
            case "ROLLBACK":
                self._end()
            case _:
                return self._run(text, arguments)
        return Cursor([], 0)

    def executemany(self, text: str, rows: Iterable[Sequence[Any]]) -> "Cursor":
        """Run a statement that writes, for each row."""
        self._writes.append(Write(text, list(rows), is_bulk=True))
        return Cursor([], 0)

    def close(self) -> None:
        """Close the connection."""
        self.abandon()

    def abandon(self) -> None:
        """End the connection without a word."""
        self._end()
        self._file.connections.discard(self)

    def pending_commit(self) -> Commit:
        """Return the commit whose flush has begun."""
        return Commit(tuple(self._writes), self.process)

    def _begin(self) -> None:
        if self._file.writer not in {None, self}:
            raise driver_error("database is locked", sqlite3.SQLITE_BUSY, "SQLITE_BUSY")
        self._file.writer = self
        self.in_transaction = True
        self._writes = []

    def _commit(self) -> None:
        file, commit = self._file, self.pending_commit()
        writes_pages = bool(commit.writes) or self._overwrites
        try:
            if writes_pages and file.flush_errors and file.random.random() < file.flush_errors:
                file.fail_flush(commit)
            elif commit.writes:
                file.apply(commit)
            elif writes_pages:
                file.unflushed = None
        finally:
            self._end()

    def _end(self) -> None:
        self.in_transaction = self.is_committing = self._overwrites = False
        self._writes = []
        if self._file.writer is self:
            self._file.writer = None

    def _run(self, text: str, arguments: Sequence[Any]) -> "Cursor":
        if not self._writes and not text.startswith(_WRITES):
            return Cursor(self._file.store.fetch(text, arguments), -1)
        result = self._file.store.attempt(self._writes, text, arguments)
        if text.startswith(_WRITES):
            self._writes.append(Write(text, [arguments]))
        return Cursor(result.rows, result.row_count)

    def _pragma(self, text: str) -> "Cursor":
        if text == "PRAGMA data_version":
            return Cursor([(self._file.store.commit_count,)], -1)
        self._overwrites = self.in_transaction
        return Cursor([], -1)


class Cursor:
    """The rows that a statement returned."""

    def __init__(self, rows: list[Any], row_count: int) -> None:
        self._rows = rows
        self.rowcount = row_count

    def fetchall(self) -> list[Any]:
        """Return all rows."""
        return self._rows

    def fetchone(self) -> Any:
        """Return the first row, or None."""
        return self._rows[0] if self._rows else None


class SimulatedCommitThread:
    """Stands in for the thread that commits: the task runs after the time of a flush."""

    def __init__(self, file: SqliteFile, process_loop: SimulatedLoop) -> None:
        self._file = file
        self._loop = process_loop

    async def run(self, task: Callable[[], Result]) -> Result:
        """Return what the task returns."""
        done: asyncio.Future[Result] = self._loop.create_future()
        writer = self._file.writer
        if isinstance(writer, SimulatedConnection):
            writer.is_committing = True
        seconds = self._file.flush_seconds * (0.2 + self._file.random.random())
        self._loop.call_later(seconds, _run_task, task, done)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            await asyncio.wait([done])
            raise

    def close(self) -> None:
        """Do nothing."""


def _run_task(task: Callable[[], Result], done: "asyncio.Future[Result]") -> None:
    try:
        done.set_result(task())
    except Exception as error:  # noqa: BLE001 - the caller of `run` gets it
        done.set_exception(error)


def driver_error(message: str, code: int, name: str) -> sqlite3.OperationalError:
    """Return an error as the driver raises it."""
    error = sqlite3.OperationalError(message)
    error.sqlite_errorcode = code
    error.sqlite_errorname = name
    return error
