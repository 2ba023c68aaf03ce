"""Those who watch the desk are told of each batch that was written, and see what waits."""

import asyncio

import pytest

from ousel.kernel.clock import system_clock
from ousel.kernel.errors import DatabaseUnavailable
from ousel.ledger.queue import PostingQueue
from tests.ledger.conftest import LedgerWorld
from tests.ledger.examples import posting

HELD_SECONDS = 0.05


class RecordingObserver:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, float]] = []

    def batch_written(self, postings: int, seconds: float) -> None:
        self.batches.append((postings, seconds))


async def test_each_batch_is_told_with_its_size_and_time(world: LedgerWorld) -> None:
    """The first, held back by the database, and the one that gathered behind it."""
    observer = RecordingObserver()
    observed_queue = PostingQueue(
        world.controlled, system_clock, queue_limit=1_000, observer=observer
    )
    world.controlled.hold()
    first = asyncio.create_task(observed_queue.post(posting(world.ada.id, "@bob")))
    await world.controlled.write_started.wait()
    others = [
        asyncio.create_task(observed_queue.post(posting(world.ada.id, "@bob"))) for _ in range(4)
    ]
    await asyncio.sleep(HELD_SECONDS)  # the time that the first batch must report
    waiting = observed_queue.waiting
    world.controlled.release()
    await asyncio.gather(first, *others)

    assert (waiting, observed_queue.waiting) == (4, 0)
    assert [postings for postings, _ in observer.batches] == [1, 4]
    assert observer.batches[0][1] >= HELD_SECONDS
    assert observer.batches[1][1] > 0


async def test_a_batch_that_was_not_written_is_not_told(world: LedgerWorld) -> None:
    """While the database is away, nothing is; one whose outcome was in doubt is told once."""
    observer = RecordingObserver()
    observed_queue = PostingQueue(
        world.controlled, system_clock, queue_limit=1_000, observer=observer
    )
    world.controlled.faults.extend(["away", "after the commit"])

    with pytest.raises(DatabaseUnavailable):
        await observed_queue.post(posting(world.ada.id, "@bob"))
    assert observer.batches == []
    await observed_queue.post(posting(world.ada.id, "@bob"))

    assert [postings for postings, _ in observer.batches] == [1]
