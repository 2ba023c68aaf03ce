"""Deletes many rows in small transactions, so that writes for callers can run in between."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from ousel.database.port import Database, Transaction

SWEEP_ROWS_MAX: Final = 250  # of each table, in one transaction
SWEEP_PAUSE_SECONDS: Final = 0.05

# Deletes at most this many rows of each table, and returns how many it deleted in all.
SweepStep = Callable[[Transaction, int], Awaitable[int]]


async def sweep(database: Database, step: SweepStep) -> int:
    """Repeat the step until it finds fewer rows than its limit; return how many were deleted."""
    swept = last = await database.write(lambda transaction: step(transaction, SWEEP_ROWS_MAX))
    while last >= SWEEP_ROWS_MAX:
        await asyncio.sleep(SWEEP_PAUSE_SECONDS)
        last = await database.write(lambda transaction: step(transaction, SWEEP_ROWS_MAX))
        swept += last
    return swept
