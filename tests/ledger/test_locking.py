"""If two processes on PostgreSQL lock the same account, the second sees what the first wrote."""

import asyncio

import pytest

from ousel.database.port import Database, Transaction
from ousel.kernel.clock import system_clock
from ousel.ledger import journal
from ousel.ledger.batch import PostingResult
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import Account, Movement, Posting, Replay, decide
from tests.ledger.examples import posting
from tests.support.accounts import balance, person, verify
from tests.support.waiting import assert_none_ends

pytestmark = pytest.mark.parametrize("engine", ["postgresql"])  # SQLite has one writer at a time


async def post_while_locked(
    database: Database, first: Posting, second: Posting, bob: Account
) -> PostingResult:
    """Write the first posting; post the second meanwhile, so that it waits for the lock."""
    queue = PostingQueue(database, system_clock, queue_limit=1)
    waiting: list[asyncio.Task[PostingResult]] = []

    async def write(transaction: Transaction) -> None:
        ids = {first.debit_account_id, bob.id}
        ledger = await journal.lock_accounts(
            transaction, ids, [first], system_clock(), awaited=None, waits=False
        )
        waiting.append(asyncio.create_task(queue.post(second)))
        await assert_none_ends(*waiting, seconds=0.3)
        outcomes = decide(
            [first], ledger.accounts, {"@bob": bob.id}, ledger.used_idempotency_keys, system_clock()
        )
        moved = [outcome for outcome in outcomes if isinstance(outcome, Movement)]
        await journal.write_movements(
            transaction, moved, ledger.accounts, batch_id=moved[0].debit.transfer_id
        )

    await database.write(write)
    return await waiting[0]


async def test_a_key_that_was_used_while_a_batch_waited_is_known(database: Database) -> None:
    """The second of two equal postings replays the first, which it did not see at its start."""
    ada, bob = await person(database, "ada", "1"), await person(database, "bob")
    first = posting(ada.id, "@bob", 30, key="once")
    second = posting(ada.id, "@bob", 30, key="once")

    answer = await post_while_locked(database, first, second, bob)

    assert isinstance(answer.outcome, Replay)
    assert answer.outcome.debit.transfer_id == first.transfer_id
    assert await balance(database, bob) == 30
    await verify(database)


async def test_a_balance_that_fell_while_a_batch_waited_is_seen(database: Database) -> None:
    """The second posting is decided on the balance that the first has left."""
    ada, bob = await person(database, "ada", "1"), await person(database, "bob")
    first = posting(ada.id, "@bob", 30, key="one")
    second = posting(ada.id, "@bob", 40, key="two")

    answer = await post_while_locked(database, first, second, bob)

    assert isinstance(answer.outcome, Movement)
    assert answer.outcome.debit.balance_after == 1_000_000 - 70
    await verify(database)
