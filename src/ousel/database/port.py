"""The port: what the rest of the house knows of a database.

Work is a coroutine function that receives an open transaction. The port begins, commits, rolls
back and repeats it as a whole, so that nobody else ever commits.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from ousel.database.statements import Statement, Table
from ousel.kernel.errors import OutcomeUnknown

ATTEMPTS_MAX: Final = 5
SETTLE_ATTEMPTS_MAX: Final = 5
BACKOFF_SECONDS: Final = 0.02
BACKOFF_SECONDS_MAX: Final = 1.0
REPEAT_SECONDS_MAX: Final = 10.0

Result = TypeVar("Result")
Row = Sequence[Any]


class Connections(msgspec.Struct, frozen=True):
    """How many connections to the database are open, by what they do."""

    in_use: int
    idle: int


class Transaction(Protocol):
    """An open transaction, in which statements run one after the other."""

    async def fetch(self, statement: Statement, **parameters: object) -> list[Row]:
        """Run the statement and return all its rows."""
        ...

    async def execute(self, statement: Statement, **parameters: object) -> int:
        """Run the statement and return how many rows it touched."""
        ...

    async def insert(self, table: Table, rows: Iterable[Sequence[object]]) -> None:
        """Insert the rows, all in one go; their values stand in the order of the columns."""
        ...

    async def update(self, table: Table, rows: Iterable[Sequence[object]]) -> None:
        """Write the columns after the key of the rows that exist, all in one go."""
        ...


Work = Callable[[Transaction], Awaitable[Result]]


class Database(Protocol):
    """A database that Ousel can live on."""

    async def open(self) -> None:
        """Connect, or raise DatabaseUnavailable."""
        ...

    async def close(self) -> None:
        """Let go of every connection."""
        ...

    async def read(self, work: Work[Result]) -> Result:
        """Run reads, each of which sees all that was committed before it."""
        ...

    async def snapshot(self, work: Work[Result]) -> Result:
        """Run reads that all see the one state of the database at their start."""
        ...

    async def write(self, work: Work[Result]) -> Result:
        """Run the work in a transaction and commit it; repeat it whole where that is safe.

        Raises OutcomeUnknown where the connection broke during the commit itself.
        """
        ...

    def connections(self) -> Connections:
        """Return how many connections are open at this moment."""
        ...

    def version(self) -> int | None:
        """Return a number that changes with every commit, by whomever, if that is known here.

        As long as it stays the same, whatever was read is what would be read now.
        """
        ...


class TransientFailure(Exception):
    """A transaction that surely did not commit and may be tried again."""


class IntegrityViolation(Exception):
    """A row that a constraint of the schema refuses."""


async def repeated(attempt: Callable[[], Awaitable[Result]]) -> Result:
    """Return the attempt's result; try it again, a few times, after a transient failure."""
    last_start = time.monotonic() + REPEAT_SECONDS_MAX
    for number in range(1, ATTEMPTS_MAX):
        try:
            return await attempt()
        except TransientFailure:
            if time.monotonic() > last_start:
                raise
            pause_seconds = min(BACKOFF_SECONDS * 2**number, BACKOFF_SECONDS_MAX)
            await asyncio.sleep(pause_seconds * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
    return await attempt()


async def settled(attempt: Callable[[OutcomeUnknown | None], Awaitable[Result]]) -> Result:
    """Return the attempt's result; where its outcome is unknown, let the next attempt find it out.

    The attempt is told of the doubt that it has to settle. Whatever fails after that leaves it
    unknown: nobody is told that nothing was written.
    """
    doubt: OutcomeUnknown | None = None
    for _ in range(SETTLE_ATTEMPTS_MAX):
        try:
            return await attempt(doubt)
        except OutcomeUnknown as unknown:
            doubt = unknown
        except Exception as error:
            if doubt is None:
                raise
            raise doubt from error
    assert doubt is not None
    raise doubt
