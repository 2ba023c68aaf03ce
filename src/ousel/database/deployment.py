"""What a database is for: real money, or a sandbox. The first server to start decides it.

Before that, so does the first key that a command issues for a sandbox: no test key is ever live.
"""

from typing import Final, Literal

from ousel.database.port import Transaction
from ousel.database.statements import Statement

Mode = Literal["live", "test"]

MODE_CLAIMED: Final = Statement(
    "claim the database's mode",
    "INSERT INTO deployment (name, value) VALUES ('mode', :mode) ON CONFLICT DO NOTHING",
)
MODE: Final = Statement("the database's mode", "SELECT value FROM deployment WHERE name = 'mode'")


async def claim_mode(transaction: Transaction, mode: Mode) -> Mode:
    """Return the mode that the database has from now on: this one, unless it had another."""
    await transaction.execute(MODE_CLAIMED, mode=mode)
    return await mode_of(transaction)


async def mode_of(transaction: Transaction) -> Mode:
    """Return the database's mode; before a server has run on it, it is live."""
    rows = await transaction.fetch(MODE)
    return "test" if rows and rows[0][0] == "test" else "live"
