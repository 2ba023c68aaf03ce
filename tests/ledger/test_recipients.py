"""Recipients: they are looked up when a batch is written, and what may change is not cached."""

import asyncio
from typing import Any

import pytest

from ousel.kernel.clock import system_clock
from ousel.kernel.observers import NO_OBSERVER
from ousel.ledger.interfaces import NoCharges, NoNotices
from ousel.ledger.notifier import MovementNotifier
from ousel.ledger.refusals import (
    AccountNotFound,
)
from ousel.ledger.rules import Movement
from ousel.ledger.writer import PostingContext
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


async def test_the_cache_of_recipients_has_a_limit(
    world: LedgerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the cache is cleared, recipients are looked up again."""
    monkeypatch.setattr("ousel.ledger.writer.RECIPIENTS_CACHED_MAX", 1)
    for name in ("@bob", "bob@example.com", world.bob.account_number) * 2:
        await world.queue.post(posting(world.ada.id, name, 5))

    assert await world.balances() == (70, 30)


async def test_a_batch_in_progress_keeps_the_recipients_that_it_has_found(
    world: LedgerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full cache is replaced, not emptied: another writer may be using it."""
    monkeypatch.setattr("ousel.ledger.writer.RECIPIENTS_CACHED_MAX", 0)
    context = PostingContext(
        world.controlled,
        system_clock,
        NoCharges(),
        NoNotices(),
        NO_OBSERVER,
        MovementNotifier(world.controlled),
        lambda *_: None,
    )
    in_use = context.recipients
    in_use["@bob"] = world.bob.id

    context.limit_recipients()

    assert context.recipients == {}
    assert in_use == {"@bob": world.bob.id}


async def test_a_frozen_account_is_frozen_for_the_next_posting(
    world: LedgerWorld, raw_sql: Any
) -> None:
    """The next batch sees what another process has changed: the status is not cached."""
    await world.queue.post(posting(world.ada.id, "@bob", 1))
    await raw_sql.run("UPDATE accounts SET status = 'frozen' WHERE username = 'bob'")

    answer = await world.queue.post(posting(world.ada.id, "@bob", 1))

    assert [kind.__name__ for kind in refusals([answer.outcome])] == ["AccountFrozen"]
