"""Deadlines: what has not begun to commit by then is refused, unwritten; the rest is completed."""

import asyncio

import pytest

from ousel.kernel.deadlines import set_deadline
from ousel.kernel.errors import DeadlineExceeded, OutcomeUnknown
from ousel.ledger.batch import PostingResult
from ousel.ledger.rules import Movement, Posting, Refused
from tests.ledger.conftest import LedgerWorld
from tests.ledger.examples import posting
from tests.support.accounts import verify
from tests.support.loop_time import LoopTime
from tests.support.postgres_proxy import Cut

DEADLINE_SECONDS = 100.0
LATER_SECONDS = 101.0


@pytest.fixture
async def loop_time() -> LoopTime:
    """The time of this test's event loop."""
    return LoopTime()


def post_in_time(
    world: LedgerWorld,
    loop_time: LoopTime,
    wanted: Posting,
    seconds: float = DEADLINE_SECONDS,
) -> "asyncio.Task[PostingResult]":
    """Post like a request that has arrived now, with a deadline so many seconds from now."""

    async def post() -> PostingResult:
        set_deadline(loop_time.now() + seconds)
        return await world.queue.post(wanted)

    return asyncio.create_task(post())


async def test_a_posting_that_is_late_is_not_written(
    world: LedgerWorld, loop_time: LoopTime
) -> None:
    """If the deadline passes before the batch begins, nothing moves, and the key stays free."""
    world.controlled.hold()
    late = post_in_time(world, loop_time, posting(world.ada.id, "@bob", 20, key="k"))
    await world.controlled.write_started.wait()
    loop_time.advance(LATER_SECONDS)
    world.controlled.release()

    result = await late

    assert isinstance(result.outcome, Refused)
    assert isinstance(result.outcome.refusal, DeadlineExceeded)
    assert await world.balances() == (100, 0)
    again = await world.queue.post(posting(world.ada.id, "@bob", 30, key="k"))
    assert isinstance(again.outcome, Movement)


async def test_a_deadline_that_passes_right_before_the_commit_counts(
    world: LedgerWorld, loop_time: LoopTime
) -> None:
    """The transaction is rolled back, and done again without the posting that is late."""
    late = post_in_time(world, loop_time, posting(world.ada.id, "@bob", 20))
    others = [
        post_in_time(world, loop_time, posting(world.ada.id, "@bob", amount), LATER_SECONDS * 2)
        for amount in (1, 2)
    ]
    world.controlled.actions_before_commit.append(lambda: loop_time.advance(LATER_SECONDS))

    with pytest.raises(DeadlineExceeded) as refused:
        await late
    results = await asyncio.gather(*others)

    assert refused.value.retry_after_seconds == 1
    assert [type(each.outcome) for each in results] == [Movement] * 2
    assert world.controlled.writes == 2
    assert await world.balances() == (97, 3)
    await verify(world.database)


async def test_a_posting_that_waits_is_refused_at_its_deadline(
    world: LedgerWorld, loop_time: LoopTime
) -> None:
    """It does not have to wait until the batch before it is written."""
    world.controlled.hold()
    first = asyncio.create_task(world.queue.post(posting(world.ada.id, "@bob", 1)))
    await world.controlled.write_started.wait()
    late = post_in_time(world, loop_time, posting(world.ada.id, "@bob", 20))
    in_time = post_in_time(world, loop_time, posting(world.ada.id, "@bob", 2), LATER_SECONDS * 2)
    await asyncio.sleep(0)  # lets the tasks start
    loop_time.advance(LATER_SECONDS)

    with pytest.raises(DeadlineExceeded):
        await late
    assert not first.done()
    world.controlled.release()
    await asyncio.gather(first, in_time)

    assert await world.balances() == (97, 3)


@pytest.mark.parametrize("cut", ["before the commit", "after the commit"])
async def test_a_commit_that_has_begun_is_completed(
    world: LedgerWorld, loop_time: LoopTime, cut: Cut
) -> None:
    """If the deadline passes after a lost commit, the journal says what happened, and no more."""

    async def pass_time() -> None:
        loop_time.advance(LATER_SECONDS)

    world.controlled.faults.append(cut)
    world.controlled.actions_after_fault.append(pass_time)

    result = await post_in_time(world, loop_time, posting(world.ada.id, "@bob", 20))

    if cut == "after the commit":
        assert isinstance(result.outcome, Movement)
        assert await world.balances() == (80, 20)
    else:
        assert isinstance(result.outcome, Refused)
        assert isinstance(result.outcome.refusal, DeadlineExceeded)
        assert await world.balances() == (100, 0)
    assert world.controlled.writes == 2


async def test_a_deadline_that_passes_while_a_lost_commit_is_resolved_leaves_it_unknown(
    world: LedgerWorld, loop_time: LoopTime
) -> None:
    """No second commit begins after the deadline, and the answer does not deny the first."""
    world.controlled.faults.append("before the commit")
    world.controlled.actions_before_commit += [
        lambda: None,
        lambda: loop_time.advance(LATER_SECONDS),
    ]

    with pytest.raises(OutcomeUnknown):
        await post_in_time(world, loop_time, posting(world.ada.id, "@bob", 20))

    assert await world.balances() == (100, 0)
