"""Callers that are canceled: they leave nothing or a complete movement, and the queue goes on."""

import asyncio

import pytest

from ousel.kernel.errors import DatabaseUnavailable
from ousel.ledger.rules import Movement, Replay
from tests.ledger.conftest import LedgerWorld
from tests.ledger.examples import posting
from tests.support.accounts import verify
from tests.support.postgres_proxy import Cut
from tests.support.waiting import until


async def test_a_caller_canceled_in_the_queue_leaves_nothing(world: LedgerWorld) -> None:
    """A posting that is canceled before its batch begins is skipped."""
    world.controlled.hold()
    first = asyncio.create_task(world.queue.post(posting(world.ada.id, "@bob", 1)))
    await world.controlled.write_started.wait()
    leaving = asyncio.create_task(world.queue.post(posting(world.ada.id, "@bob", 20, key="k")))
    staying = asyncio.create_task(world.queue.post(posting(world.ada.id, "@bob", 2)))
    await until(lambda: world.queue.waiting_count == 2)
    leaving.cancel()
    world.controlled.release()
    await asyncio.gather(first, staying)

    assert leaving.cancelled()
    assert await world.balances() == (97, 3)
    key_is_free = await world.queue.post(posting(world.ada.id, "@bob", 30, key="k"))
    assert isinstance(key_is_free.outcome, Movement)


async def test_a_caller_canceled_during_its_batch_leaves_a_complete_movement(
    world: LedgerWorld,
) -> None:
    """If a posting is canceled while its batch is committed, both entries and the key exist."""
    leaving = asyncio.create_task(world.queue.post(posting(world.ada.id, "@bob", 20, key="k")))
    staying = asyncio.create_task(world.queue.post(posting(world.ada.id, "@bob", 1)))
    soon = asyncio.get_running_loop().call_soon  # by then, the commit has begun
    world.controlled.actions_before_commit.append(lambda: soon(leaving.cancel))
    await staying

    assert leaving.cancelled()
    assert await world.balances() == (79, 21)
    again = await world.queue.post(posting(world.ada.id, "@bob", 20, key="k"))
    assert isinstance(again.outcome, Replay)
    await verify(world.database)


async def test_a_caller_canceled_before_the_commit_of_its_batch_leaves_nothing(
    world: LedgerWorld,
) -> None:
    """Although its posting is decided and written; the others are written again without it."""
    leaving = asyncio.create_task(world.queue.post(posting(world.ada.id, "@bob", 20, key="k")))
    staying = asyncio.create_task(world.queue.post(posting(world.ada.id, "@bob", 1)))
    world.controlled.actions_before_commit.append(leaving.cancel)
    await staying

    assert leaving.cancelled()
    assert await world.balances() == (99, 1)
    key_is_free = await world.queue.post(posting(world.ada.id, "@bob", 30, key="k"))
    assert isinstance(key_is_free.outcome, Movement)
    await verify(world.database)


@pytest.mark.parametrize("lost", ["before the commit", "after the commit"])
async def test_a_caller_canceled_while_the_outcome_is_unknown_is_settled_with_the_others(
    world: LedgerWorld, lost: Cut
) -> None:
    """What a lost commit may have written is looked up for everybody, and written only once."""
    world.controlled.faults.append(lost)
    leaving = asyncio.create_task(world.queue.post(posting(world.ada.id, "@bob", 20, key="k")))
    staying = asyncio.create_task(world.queue.post(posting(world.ada.id, "@bob", 1)))
    world.controlled.actions_before_commit += [lambda: None, leaving.cancel]

    assert isinstance((await staying).outcome, Movement)
    assert await world.balances() == (79, 21)
    await verify(world.database)


async def test_a_caller_canceled_before_its_batch_is_decided_leaves_nothing(
    world: LedgerWorld,
) -> None:
    """A posting that has joined a batch, but has not begun to be written, is dropped."""
    world.controlled.hold()
    leaving = asyncio.create_task(world.queue.post(posting(world.ada.id, "@bob", 20, key="k")))
    staying = asyncio.create_task(world.queue.post(posting(world.ada.id, "@bob", 1)))
    await world.controlled.write_started.wait()
    leaving.cancel()
    world.controlled.release()
    await staying

    assert leaving.cancelled()
    assert await world.balances() == (99, 1)
    key_is_free = await world.queue.post(posting(world.ada.id, "@bob", 30, key="k"))
    assert isinstance(key_is_free.outcome, Movement)


async def test_the_queue_works_after_all_callers_were_canceled(world: LedgerWorld) -> None:
    """If all waiting callers were canceled, the queue is emptied without a transaction."""
    world.controlled.hold()
    first = asyncio.create_task(world.queue.post(posting(world.ada.id, "@bob", 1)))
    await world.controlled.write_started.wait()
    leaving = [
        asyncio.create_task(world.queue.post(posting(world.ada.id, "@bob"))) for _ in range(9)
    ]
    await until(lambda: world.queue.waiting_count == len(leaving))
    for task in leaving:
        task.cancel()
    world.controlled.release()
    await first
    await world.queue.close()

    assert world.controlled.writes == 1
    await world.queue.post(posting(world.ada.id, "@bob", 1))
    assert await world.balances() == (98, 2)


async def test_a_canceled_caller_gets_no_failure(world: LedgerWorld) -> None:
    """If a caller was canceled before the failure, the others get it, and the queue continues."""
    world.controlled.faults.append("away")
    world.controlled.hold()
    leaving = asyncio.create_task(world.queue.post(posting(world.ada.id, "@bob")))
    staying = asyncio.create_task(world.queue.post(posting(world.ada.id, "@bob")))
    await world.controlled.write_started.wait()
    leaving.cancel()
    world.controlled.release()

    with pytest.raises(DatabaseUnavailable):
        await staying
    await world.queue.post(posting(world.ada.id, "@bob"))
    assert await world.balances() == (99, 1)
