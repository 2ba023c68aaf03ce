"""The sealer takes little time from transfers, and seals soon all the same."""

import asyncio
from typing import Any

import pytest
from typing_extensions import override

from ousel.database.port import Database, Result, Work
from ousel.ledger.queue import PostingQueue
from ousel.sealed_log import sealer as sealing
from tests.sealed_log.logs import Log, send
from tests.support.accounts import person
from tests.support.controlled_database import ControlledDatabase
from tests.support.delegating_database import DelegatingDatabase


class SlowDatabase(DelegatingDatabase):
    """A database whose transactions take some time of a clock that stands still otherwise."""

    def __init__(self, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(database)
        self.time = 100.0
        self.step_seconds = 1 / 64  # a binary fraction, so that the sums are exact
        monkeypatch.setattr(sealing, "monotonic", lambda: self.time)

    @override
    async def write(self, work: Work[Result], **options: Any) -> Result:
        self.time += self.step_seconds
        return await super().write(work, **options)


async def test_a_sealer_rests_after_its_work(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """It pauses in proportion to the time that a step took, but seals at least once a second."""
    slow = SlowDatabase(log.database, monkeypatch)
    sealer = log.another_sealer(slow)
    ada = await person(log.database, "ada", "1")
    await person(log.database, "bob")
    await sealer.seal_due()

    await send(log.queue, ada, "@bob")
    slow.time += slow.step_seconds * sealing.PAUSE_RATIO / 2
    await sealer.seal_due()
    assert (await log.checkpoint()).size == 1
    slow.time += slow.step_seconds * sealing.PAUSE_RATIO / 2
    slow.step_seconds = 10.0
    await sealer.seal_due()
    assert (await log.checkpoint()).size == 2

    await send(log.queue, ada, "@bob")
    slow.time += sealing.PAUSE_SECONDS_MAX
    await sealer.seal_due()
    assert await log.assert_complete() == 3


async def pauses_under_load(
    log: Log, monkeypatch: pytest.MonkeyPatch, step_seconds: float
) -> list[float]:
    """Seal four movements in as many steps while postings are written; return the pauses."""
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def rest(seconds: float) -> None:
        pauses.append(seconds)
        slow.time += seconds
        await sleep(0)

    ada = await person(log.database, "ada", "1")
    await person(log.database, "bob")
    for _ in range(3):
        await send(log.queue, ada, "@bob")
    await log.sealer.prepare()
    slow = SlowDatabase(log.database, monkeypatch)
    slow.step_seconds = step_seconds
    monkeypatch.setattr(sealing, "STEP_MOVEMENTS", 1)
    monkeypatch.setattr(PostingQueue, "is_busy", True)
    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "sleep", rest)
        await log.another_sealer(slow).seal_all()
    assert await log.assert_complete() == 4
    return [seconds for seconds in pauses if seconds]


async def test_a_slow_step_is_followed_by_a_short_pause(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This also holds while postings are written, so that no movement waits for minutes."""
    assert set(await pauses_under_load(log, monkeypatch, 10.0)) == {sealing.PAUSE_SECONDS_MAX}


async def test_a_sealer_that_cannot_catch_up_rests_ever_shorter(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the log would fall behind a constant load without limit."""
    monkeypatch.setattr(sealing, "CATCH_UP_SECONDS", 1 / 64)
    first, second, third = await pauses_under_load(log, monkeypatch, 1 / 64)
    assert first == sealing.PAUSE_RATIO / 64
    assert first > 10 * second > 10 * third


async def test_a_sealer_looks_when_its_process_has_written_or_after_a_second(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a tick does not touch the database."""
    time = 100.0
    monkeypatch.setattr(sealing, "monotonic", lambda: time)
    controlled = ControlledDatabase(log.database)
    sealer = log.another_sealer(controlled)
    ada = await person(log.database, "ada", "1")
    await person(log.database, "bob")
    await sealer.seal_due()
    writes = controlled.writes

    await sealer.seal_due()
    assert controlled.writes == writes

    await send(log.queue, ada, "@bob")
    await sealer.seal_due()
    assert await log.assert_complete() == 2

    await person(log.database, "eve", "1")  # by another queue, as if by another process
    await sealer.seal_due()
    assert (await log.checkpoint()).size == 2
    time += sealing.POLL_SECONDS
    await sealer.seal_due()
    assert await log.assert_complete() == 3
