"""The row that stores how far the sandbox's clock is ahead."""

from typing import Final

from ousel.database.port import Transaction
from ousel.database.statements import Statement

ADD_OFFSET: Final = Statement(
    "advance the sandbox's clock",
    "INSERT INTO deployment (name, value) VALUES ('clock_offset_micros', :micros)"
    " ON CONFLICT (name) DO UPDATE SET value ="
    " CAST(CAST(deployment.value AS BIGINT) + CAST(excluded.value AS BIGINT) AS TEXT)",
)
OFFSET: Final = Statement(
    "how far the sandbox's clock is ahead",
    "SELECT value FROM deployment WHERE name = 'clock_offset_micros'",
)


async def add_offset(transaction: Transaction, micros: int) -> int:
    """Advance the clock, and return how many microseconds it is ahead now."""
    await transaction.execute(ADD_OFFSET, micros=str(micros))
    return await offset(transaction)


async def offset(transaction: Transaction) -> int:
    """Return how many microseconds the clock is ahead."""
    rows = await transaction.fetch(OFFSET)
    return int(rows[0][0]) if rows else 0
