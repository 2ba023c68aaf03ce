"""What a database is marked with: its mode, and the key that encrypts secrets in it.

The mode is live for real money, or test for a sandbox. The first server that starts sets it. If a
command issues a key for a sandbox earlier, it sets the mode too, so that a test key is never valid
on a live server.
"""

from typing import Final, Literal

from ousel.database.port import Row, Transaction
from ousel.database.statements import Statement

Mode = Literal["live", "test"]

CLAIM_MODE: Final = Statement(
    "claim the database's mode",
    "INSERT INTO deployment (name, value) VALUES ('mode', :mode) ON CONFLICT DO NOTHING",
)
MODE: Final = Statement("the database's mode", "SELECT value FROM deployment WHERE name = 'mode'")
CLAIM_SECRET_KEY: Final = Statement(
    "record the key that encrypts secrets, unless there is one",
    "INSERT INTO deployment (name, value) VALUES ('secret_key', :key_id) ON CONFLICT DO NOTHING",
)
SECRET_KEY: Final = Statement(
    "the key that encrypts secrets", "SELECT value FROM deployment WHERE name = 'secret_key'"
)
LOCK_SECRET_KEY: Final = Statement(
    "the key that encrypts secrets, locked", f"{SECRET_KEY.text} FOR UPDATE"
)
CHANGE_SECRET_KEY: Final = Statement(
    "record another key that encrypts secrets",
    "UPDATE deployment SET value = :key_id WHERE name = 'secret_key'",
)


async def claim_mode(transaction: Transaction, mode: Mode) -> Mode:
    """Set the database's mode unless it has one already, and return the mode that it has.

    If it has one, nothing is written. So a server can start while no commit succeeds.
    """
    if not await transaction.fetch(MODE):
        await transaction.execute(CLAIM_MODE, mode=mode)
    return await mode_of(transaction)


async def mode_of(transaction: Transaction) -> Mode:
    """Return the database's mode, which is live if it has not been set."""
    return await recorded_mode(transaction) or "live"


async def recorded_mode(transaction: Transaction) -> Mode | None:
    """Return the database's mode, or None if it has not been set."""
    rows = await transaction.fetch(MODE)
    if not rows:
        return None
    return "test" if rows[0][0] == "test" else "live"


async def secret_key_id(transaction: Transaction) -> str | None:
    """Return the id of the key that encrypts secrets, or None if no secret was encrypted yet."""
    return _key_id(await transaction.fetch(SECRET_KEY))


async def lock_secret_key(transaction: Transaction) -> str | None:
    """Return the id of the key that encrypts secrets, which cannot change before the commit."""
    return _key_id(await transaction.fetch(LOCK_SECRET_KEY))


async def claim_secret_key(transaction: Transaction, key_id: str) -> str:
    """Record the first key that encrypts secrets, unless there is one; return the recorded one."""
    await transaction.execute(CLAIM_SECRET_KEY, key_id=key_id)
    claimed = await lock_secret_key(transaction)
    assert claimed is not None
    return claimed


async def set_secret_key(transaction: Transaction, key_id: str) -> None:
    """Record another key, in a transaction that has locked the one before."""
    await transaction.execute(CHANGE_SECRET_KEY, key_id=key_id)


def _key_id(rows: list[Row]) -> str | None:
    return str(rows[0][0]) if rows else None
