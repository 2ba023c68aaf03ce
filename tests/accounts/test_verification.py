"""Verification reports identifiers that point to the wrong account."""

import pytest

from ousel.accounts.service import AccountService, NewHolder
from ousel.accounts.verification import verify_identifiers
from ousel.database.port import Database
from ousel.kernel.clock import system_clock
from ousel.ledger.verify import VerificationFailed
from tests.support.accounts import person
from tests.support.raw_sql import RawSql


@pytest.mark.parametrize("kind", ["username", "number", "email"])
async def test_an_identifier_of_another_account_is_named(
    database: Database, raw_sql: RawSql, kind: str
) -> None:
    """Whoever points somebody's name at their own account is found."""
    ada, eve = await person(database, "ada"), await person(database, "eve")
    name = {"username": "@ada", "number": ada.account_number, "email": "ada@example.com"}[kind]
    await database.snapshot(verify_identifiers)

    await raw_sql.run("UPDATE identifiers SET account_id = ? WHERE identifier = ?", eve.id, name)

    assert (
        await _error(database)
        == f"the identifier {name} of account {ada.id} points to account {eve.id}"
    )


async def test_a_missing_identifier_is_named(database: Database, raw_sql: RawSql) -> None:
    """An account that is no longer found is reported."""
    ada = await person(database, "ada")

    await raw_sql.run("DELETE FROM identifiers WHERE identifier = '@ada'")

    assert await _error(database) == f"the identifier @ada of account {ada.id} points to no account"


async def test_an_identifier_that_nobody_has_is_named(database: Database, raw_sql: RawSql) -> None:
    """An added identifier would let an account receive what is meant for another one."""
    ada = await person(database, "ada")

    await raw_sql.run("INSERT INTO identifiers VALUES ('@harbour', ?)", ada.id)

    assert await _error(database) == (
        f"the identifier @harbour points to account {ada.id}, which does not have it"
    )


@pytest.mark.parametrize("tampers", [False, True])
async def test_an_email_that_an_account_waits_for_must_not_find_it(
    database: Database, raw_sql: RawSql, *, tampers: bool
) -> None:
    """An unconfirmed email is no error, unless it points to the account that waits for it."""
    ada = await person(database, "ada")
    holder = NewHolder(
        username="eve", email="ada@example.com", display_name="Eve", email_is_confirmed=False
    )
    eve = await AccountService(database, system_clock).open(holder)
    if not tampers:
        await database.snapshot(verify_identifiers)
        return

    change = "UPDATE identifiers SET account_id = ? WHERE identifier = 'ada@example.com'"
    await raw_sql.run(change, eve.id)

    assert await _error(database) == (
        f"the identifier ada@example.com of account {ada.id} points to account {eve.id}"
    )


async def _error(database: Database) -> str:
    with pytest.raises(VerificationFailed) as found:
        await database.snapshot(verify_identifiers)
    return str(found.value)
