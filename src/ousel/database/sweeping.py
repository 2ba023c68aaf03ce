"""Deletes many rows in small steps."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from ousel.database.port import Database, Transaction
from ousel.database.statements import Statement

SWEEP_ROWS_MAX: Final = 250  # of each table, in one transaction
SWEEP_PAUSE_SECONDS: Final = 0.05
DELETED_AT_ONCE: Final = 10_000  # about so many rows, by one statement

# Deletes at most this many rows of each table, and returns how many it deleted in all.
SweepStep = Callable[[Transaction, int], Awaitable[int]]


async def sweep(database: Database, step: SweepStep) -> int:
    """Repeat the step until it finds fewer rows than its limit; return how many were deleted.

    Each step is a transaction of its own, so writes for callers can run in between.
    """
    swept = last = await database.write(lambda transaction: step(transaction, SWEEP_ROWS_MAX))
    while last >= SWEEP_ROWS_MAX:
        await asyncio.sleep(SWEEP_PAUSE_SECONDS)
        last = await database.write(lambda transaction: step(transaction, SWEEP_ROWS_MAX))
        swept += last
    return swept


async def delete_all(transaction: Transaction, deletion: Statement) -> int:
    """Delete all rows of a table; return how many there were.

    `deletion` is what `deletion_since` returns for the table. There may be millions of rows, and
    one statement that deletes them all would exceed its time limit.
    """
    deleted = since = 0
    while rows := await transaction.fetch(deletion, since=since, limit=DELETED_AT_ONCE):
        deleted += len(rows)
        since = max(time for (time,) in rows)
    return deleted
