"""What is on the simulated disk: real tables in memory, and the commits that led to them.

A transaction is a list of writes. Its statements run on the committed state with these writes
applied before, and all of it is rolled back again. So any number of transactions can be open at
once, and each statement sees what is committed when it runs, as under READ COMMITTED.
"""

import sqlite3
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from ousel.database.port import Row
from ousel.database.statements import _SQLITE_CLOCK


class Write(msgspec.Struct, frozen=True):
    """One statement that writes, with the rows of its parameters."""

    text: str
    rows: Sequence[Sequence[Any]]
    is_bulk: bool = False  # one execution for each row


class Commit(msgspec.Struct, frozen=True):
    """A committed transaction."""

    writes: tuple[Write, ...]
    origin: object  # the transaction, for the trace


CommitObserver = Callable[[Commit], None]


class Store:
    """The tables of one database, which all simulated processes share."""

    def __init__(self, image: bytes, clock: Callable[[], int]) -> None:
        """Open an image; `clock` is what the statements' CLOCK() shows."""
        self._clock = clock
        self._connection = _open(image, clock)
        self._image = image  # what `commits` were made after
        self.commits: list[Commit] = []  # since the image was taken
        self.commit_count = 0

    def close(self) -> None:
        """Free the memory."""
        self._connection.close()

    def fetch(self, text: str, arguments: Sequence[Any] = ()) -> list[Row]:
        """Run a statement that only reads the committed state."""
        return self._connection.execute(_simulated(text), arguments).fetchall()

    def attempt(self, writes: Sequence[Write], text: str, arguments: Sequence[Any]) -> "Attempt":
        """Run a statement after these writes, and undo all of it."""
        connection = self._connection
        connection.execute("BEGIN")
        try:
            self._apply(writes)
            cursor = connection.execute(_simulated(text), arguments)
            return Attempt(cursor.fetchall(), cursor.rowcount)
        finally:
            connection.execute("ROLLBACK")

    def commit(self, commit: Commit) -> None:
        """Apply the writes for good, all or none; raise the driver's error if one is refused."""
        self._connection.execute("BEGIN")
        try:
            self._apply(commit.writes)
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
        self.commits.append(commit)
        self.commit_count += 1

    def mark_replicated(self) -> None:
        """From now on, all commits so far are on the follower, too."""
        self._image = self._connection.serialize()
        self.commits = []

    def lose_commits_after(self, kept: int) -> None:
        """Return to the state after this many commits since `mark_replicated`."""
        commits = self.commits[:kept]
        self._connection.close()
        self._connection = _open(self._image, self._clock)
        self.commits = []
        for commit in commits:
            self.commit(commit)

    def _apply(self, writes: Sequence[Write]) -> None:
        for write in writes:
            if write.is_bulk:
                self._connection.executemany(write.text, write.rows)
            else:
                self._connection.execute(write.text, write.rows[0])


class Attempt(msgspec.Struct, frozen=True):
    """What a statement returned."""

    rows: list[Row]
    row_count: int


@lru_cache(maxsize=256)
def _simulated(text: str) -> str:
    """Return the statement with the simulated clock instead of the machine's."""
    return text.replace(_SQLITE_CLOCK, "simulated_clock()")


def _open(image: bytes, clock: Callable[[], int]) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None, cached_statements=256)
    connection.deserialize(image)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.create_function("simulated_clock", 0, clock)
    return connection
