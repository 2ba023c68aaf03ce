"""Refusals do not leak memory."""

import gc
import weakref

import pytest

from ousel.database.port import Database, Result, Work
from ousel.kernel.clock import system_clock
from ousel.kernel.errors import DatabaseUnavailable, Refusal
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import SYSTEM_ACCOUNT_ID, Refused
from tests.ledger.examples import posting
from tests.support.waiting import until


class Unreachable:
    """A database that cannot be reached."""

    async def write(self, work: Work[Result], **_: object) -> Result:
        raise DatabaseUnavailable(f"{work} cannot be done")


@pytest.mark.parametrize("reachable", [True, False])
async def test_a_refusal_is_freed(database: Database, *, reachable: bool) -> None:
    """After a refusal was raised and answered, nothing refers to it any more."""
    queue = PostingQueue(
        database if reachable else Unreachable(),  # type: ignore[arg-type]
        system_clock,
        queue_limit=1,
    )
    raised: list[weakref.ref[Refusal]] = []

    async def refused() -> None:
        try:
            posted = await queue.post(posting(SYSTEM_ACCOUNT_ID, "@nobody"))
            assert isinstance(posted.outcome, Refused)
            raise posted.outcome.refusal
        except Refusal as refusal:
            raised.append(weakref.ref(refusal))

    await refused()
    await queue.close()
    # For a moment, the event loop and the commit thread still refer to the answer.
    await until(lambda: gc.collect() >= 0 and raised[0]() is None)
    assert [reference() for reference in raised] == [None]
