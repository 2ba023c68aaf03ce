"""The database's mode: live for real money, or test for a sandbox.

The first server that starts sets the mode. If a command issues a key for a sandbox earlier,
it sets the mode too, so that a test key is never valid on a live server.
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
    """Set the database's mode unless it has one already, and return the mode that it has."""
    await transaction.execute(MODE_CLAIMED, mode=mode)
    return await mode_of(transaction)


async def mode_of(transaction: Transaction) -> Mode:
    """Return the database's mode, which is live if it has not been set."""
    rows = await transaction.fetch(MODE)
    return "test" if rows and rows[0][0] == "test" else "live"
