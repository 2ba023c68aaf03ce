"""Many races for an email: exactly one account has it, and receives what is sent to it."""

import pytest

from ousel.accounts.verification import verify_identifiers
from ousel.database.port import Database
from tests.faults.sizes import sized
from tests.people.mailboxes import People, race
from tests.support.accounts import person, verify

RACES = sized(10, 200)  # on each engine


@pytest.mark.slow
async def test_an_email_is_never_won_by_two_accounts(people: People, database: Database) -> None:
    """Two accounts confirm one email at once, again and again, while money is sent to it."""
    payer = await person(database, "payer", "100000", people.clock)
    for number in range(RACES):
        people.clock.advance(seconds=3600)  # so that no limit on sign-ups is reached
        await race(people, payer.id, f"race{number}@example.com", number)

    await database.snapshot(verify_identifiers)
    await verify(database)
