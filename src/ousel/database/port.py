"""The interface through which the rest of Ousel uses a database.

Work is a coroutine function that receives an open transaction. The database begins, commits, rolls
back and repeats it as a whole, so nothing else ever commits.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from ousel.database.statements import Statement, Table

Result = TypeVar("Result")
Row = Sequence[Any]


class Connections(msgspec.Struct, frozen=True):
    """How many connections are in use, idle or abandoned, and whether writes are suspended."""

    in_use: int
    idle: int
    abandoned_commits: int = 0
    writes_suspended: bool = False


class Transaction(Protocol):
    """An open transaction, in which statements run one after the other."""

    follows_unknown_commit: bool
    """Whether an earlier attempt at the same work may have been committed."""

    async def fetch(self, statement: Statement, **parameters: object) -> list[Row]:
        """Run the statement and return all its rows."""
        ...

    async def execute(self, statement: Statement, **parameters: object) -> int:
        """Run the statement and return how many rows it touched."""
        ...

    async def insert(self, table: Table, rows: Iterable[Sequence[object]]) -> None:
        """Insert all rows at once; each row has its values in the order of the table's columns."""
        ...

    async def update(self, table: Table, rows: Iterable[Sequence[object]]) -> None:
        """Update all rows at once: find each by its key, and write its other columns."""
        ...


Work = Callable[[Transaction], Awaitable[Result]]


class Database(Protocol):
    """A database that Ousel can run on."""

    async def open(self) -> None:
        """Connect, or raise DatabaseUnavailable."""
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...

    async def read(self, work: Work[Result]) -> Result:
        """Run reads, each of which sees all that was committed before it."""
        ...

    async def snapshot(self, work: Work[Result]) -> Result:
        """Run reads that all see the state of the database at their start."""
        ...

    async def write(
        self,
        work: Work[Result],
        *,
        resolves_unknown_commit: bool = False,
        before_commit: Callable[[], None] | None = None,
        repeats_locked: bool = True,
    ) -> Result:
        """Run the work in a transaction and commit it; repeat it as a whole if that is safe.

        If the connection breaks during the commit, OutcomeUnknown is raised. With
        `resolves_unknown_commit`, the work runs again instead, with `follows_unknown_commit` set,
        and must find what its earlier attempt has written. `before_commit` is called just
        before the commit is sent; if it raises, the work is rolled back. Without it, the deadline
        of the request is checked, and that its task was not canceled. If other transactions keep
        rows locked, RowsLocked is raised after several attempts, or after the first one if
        `repeats_locked` is False.
        """
        ...

    def connections(self) -> Connections:
        """Return how many connections are open now."""
        ...

    def is_distributed(self) -> bool:
        """Return whether the accounts are spread over several servers.

        If so, an id by which rows are looked up should name its account, so that one server is
        asked instead of all.
        """
        ...

    def version(self) -> int | None:
        """Return a number that changes with every commit of any process, or None if unknown.

        As long as it stays the same, everything that was read before is still current.
        """
        ...


class IntegrityViolation(Exception):
    """A constraint of the schema refuses a row."""
