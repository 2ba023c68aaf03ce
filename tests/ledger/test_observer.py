"""An observer of the queue is called for each batch that was written."""

import asyncio
from time import perf_counter

import pytest

from ousel.kernel.clock import system_clock
from ousel.kernel.errors import DatabaseUnavailable
from ousel.ledger.queue import PostingQueue
from tests.ledger.conftest import LedgerWorld
from tests.ledger.examples import posting

HELD_SECONDS = 0.05


class RecordingObserver:
    """Records the calls."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, float]] = []

    def batch_written(self, postings: int, seconds: float) -> None:
        self.batches.append((postings, seconds))


async def test_each_batch_is_reported_with_its_size_and_time(world: LedgerWorld) -> None:
    """The first batch is held back, and the others wait for the second."""
    observer = RecordingObserver()
    observed_queue = PostingQueue(
        world.controlled, system_clock, queue_limit=1_000, observer=observer
    )
    begun = perf_counter()
    world.controlled.hold()
    first = asyncio.create_task(observed_queue.post(posting(world.ada.id, "@bob")))
    await world.controlled.write_started.wait()
    others = [
        asyncio.create_task(observed_queue.post(posting(world.ada.id, "@bob"))) for _ in range(4)
    ]
    await asyncio.sleep(HELD_SECONDS)  # the time that the first batch must report
    waiting = observed_queue.waiting_count
    world.controlled.release()
    await asyncio.gather(first, *others)

    assert (waiting, observed_queue.waiting_count) == (4, 0)
    assert [postings for postings, _ in observer.batches] == [1, 4]
    assert observer.batches[0][1] >= HELD_SECONDS
    assert observer.batches[1][1] > 0
    assert sum(seconds for _, seconds in observer.batches) <= perf_counter() - begun


async def test_a_batch_that_was_not_written_is_not_reported(world: LedgerWorld) -> None:
    """A failed batch is not reported; one whose commit had to be resolved is reported once."""
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
