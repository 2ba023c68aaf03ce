"""Recipients: they are looked up when a batch is written, and what may change is not cached."""

import asyncio
from typing import Any

import pytest

from ousel.database.port import Transaction
from ousel.ledger import journal
from ousel.ledger.refusals import (
    AccountNotFound,
)
from ousel.ledger.rules import Movement
from tests.ledger.conftest import LedgerWorld
from tests.ledger.examples import posting, refusals
from tests.support.accounts import balance, person


async def test_a_recipient_is_looked_up_when_the_batch_is_written(world: LedgerWorld) -> None:
    """An account that is opened while the posting waits is found; an unknown one is not cached."""
    unknown = await world.queue.post(posting(world.ada.id, "@eve"))
    world.controlled.hold()
    waiting = asyncio.create_task(world.queue.post(posting(world.ada.id, "@eve", 7)))
    await world.controlled.write_started.wait()
    eve = await person(world.database, "eve")
    world.controlled.release()

    assert refusals([unknown.outcome]) == [AccountNotFound]
    assert isinstance((await waiting).outcome, Movement)
    assert await balance(world.database, eve) == 7


async def test_every_identifier_finds_the_account(world: LedgerWorld) -> None:
    """Username, email and account number name the same recipient."""
    for name in ("@bob", "bob@example.com", world.bob.account_number):
        await world.queue.post(posting(world.ada.id, name, 5))

    assert await world.balances() == (85, 15)


async def test_only_what_may_change_is_looked_up_again(
    world: LedgerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A username and an account number are looked up once, an email for every batch."""
    looked_up: list[set[str]] = []
    find = journal.find_account_ids

    async def find_account_ids(transaction: Transaction, identifiers: set[str]) -> dict[str, str]:
        looked_up.append(identifiers)
        return await find(transaction, identifiers)

    monkeypatch.setattr(journal, "find_account_ids", find_account_ids)
    names = ("@bob", "bob@example.com", world.bob.account_number)
    for name in names:
        await world.queue.post(posting(world.ada.id, name, 5))
    await asyncio.gather(*(world.queue.post(posting(world.ada.id, name, 5)) for name in names))

    assert looked_up == [*({name} for name in names), {"bob@example.com"}]
    assert await world.balances() == (70, 30)


async def test_an_email_is_looked_up_again_when_a_batch_is_repeated(world: LedgerWorld) -> None:
    """Nothing was written, so the money goes to the account that the email names now."""
    eve = await person(world.database, "eve")

    async def change_owner(transaction: Transaction) -> None:
        await journal.release_identifier(transaction, "bob@example.com", world.bob.id)
        await journal.claim_identifier(transaction, "bob@example.com", eve.id)

    world.controlled.faults.append("locked")
    world.controlled.actions_after_fault.append(lambda: world.database.write(change_owner))

    await world.queue.post(posting(world.ada.id, "bob@example.com", 30))

    assert await world.balances() == (70, 0)
    assert await balance(world.database, eve) == 30


async def test_the_cache_of_recipients_has_a_limit(
    world: LedgerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the cache is cleared, recipients are looked up again."""
    monkeypatch.setattr("ousel.ledger.writer.RECIPIENTS_CACHED_MAX", 1)
    for name in ("@bob", "bob@example.com", world.bob.account_number) * 2:
        await world.queue.post(posting(world.ada.id, name, 5))

    assert await world.balances() == (70, 30)


async def test_a_name_whose_account_was_lost_is_looked_up_again(
    world: LedgerWorld, raw_sql: Any
) -> None:
    """After a switch of the database that lost an account, somebody else may take its name."""
    await world.queue.post(posting(world.ada.id, "@bob", 5))
    await raw_sql.run("DELETE FROM identifiers WHERE account_id = ?", world.bob.id)
    await raw_sql.run("DELETE FROM accounts WHERE id = ?", world.bob.id)
    with pytest.raises(KeyError):
        await world.queue.post(posting(world.ada.id, "@bob", 5))

    unknown = await world.queue.post(posting(world.ada.id, "@bob", 5))

    assert refusals([unknown.outcome]) == [AccountNotFound]


async def test_a_batch_in_progress_keeps_to_the_recipients_that_it_has_found(
    world: LedgerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer may add a name to the cache that they share, while this one waits for locks.

    This batch has not locked the account of that name.
    """
    eve = await person(world.database, "eve")
    context = world.queue._writer._context  # noqa: SLF001
    lock = journal.lock_accounts

    async def lock_accounts(*arguments: Any, **options: Any) -> journal.LockedLedger:
        context.recipients |= {"@eve": eve.id}
        return await lock(*arguments, **options)

    async def find_none(*_: object) -> dict[str, str]:
        return {}

    monkeypatch.setattr(journal, "lock_accounts", lock_accounts)
    monkeypatch.setattr(journal, "find_account_ids", find_none)

    answer = await world.queue.post(posting(world.ada.id, "@eve"))

    assert refusals([answer.outcome]) == [AccountNotFound]


async def test_a_frozen_account_is_frozen_for_the_next_posting(
    world: LedgerWorld, raw_sql: Any
) -> None:
    """The next batch sees what another process has changed: the status is not cached."""
    await world.queue.post(posting(world.ada.id, "@bob", 1))
    await raw_sql.run("UPDATE accounts SET status = 'frozen' WHERE username = 'bob'")

    answer = await world.queue.post(posting(world.ada.id, "@bob", 1))

    assert [kind.__name__ for kind in refusals([answer.outcome])] == ["AccountFrozen"]
