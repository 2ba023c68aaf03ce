"""A database is for real money or a sandbox; the first server that starts decides it forever."""

import asyncio

from ousel.database.deployment import claim_mode, mode_of
from ousel.database.port import Database


async def test_a_fresh_database_is_live_until_claimed(database: Database) -> None:
    """Before any server has run, commands treat it as live."""
    assert await database.read(mode_of) == "live"


async def test_the_first_claim_holds(database: Database) -> None:
    """A later claim returns the mode that the database has."""
    assert await database.write(lambda transaction: claim_mode(transaction, "test")) == "test"
    assert await database.write(lambda transaction: claim_mode(transaction, "live")) == "test"
    assert await database.read(mode_of) == "test"


async def test_simultaneous_claims_agree(database: Database) -> None:
    """Two servers that start at the same time get the same mode."""
    modes = await asyncio.gather(
        database.write(lambda transaction: claim_mode(transaction, "live")),
        database.write(lambda transaction: claim_mode(transaction, "test")),
    )

    assert len(set(modes)) == 1
    assert await database.read(mode_of) == modes[0]
