"""The sealer takes little time from transfers, and seals soon all the same."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from typing_extensions import override

from ousel.database.port import Database, Result, Transaction, Work
from ousel.ledger.movements import unsealed_batches
from ousel.ledger.places import Place
from ousel.sealed_log import backfill
from ousel.sealed_log import sealer as sealing
from ousel.sealed_log.backfill import BackfillSearch
from tests.sealed_log.logs import Log, send
from tests.support.accounts import person
from tests.support.controlled_database import ControlledDatabase
from tests.support.delegating_database import DelegatingDatabase
from tests.support.raw_sql import RawSql


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


async def pauses_of_steps(log: Log, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seal everything, in several steps of 1/64 s; return the pauses between the steps."""
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    with monkeypatch.context() as patch:
        slow = SlowDatabase(log.database, patch)
        patch.setattr(asyncio, "sleep", pause)
        await log.another_sealer(slow).seal_all()
    return pauses


async def test_a_sealer_with_more_to_seal_does_not_pause(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the log would fall behind a constant load."""
    monkeypatch.setattr(sealing, "STEP_MOVEMENTS", 1)
    ada = await person(log.database, "ada", "1")
    await person(log.database, "bob")
    for _ in range(3):
        await send(log.queue, ada, "@bob")

    assert set(await pauses_of_steps(log, monkeypatch)) == {0}
    assert await log.assert_complete() == 4


async def test_a_backfill_leaves_half_of_the_time_to_transfers(
    log: Log, raw_sql: RawSql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may take hours, and nobody waits for its leaves."""
    monkeypatch.setattr(backfill, "PAGE_ENTRIES", 2)
    ada = await person(log.database, "ada", "1")
    await person(log.database, "bob")
    await send(log.queue, ada, "@bob", 4)
    await raw_sql.run("DELETE FROM unsealed_batches")
    await BackfillSearch(log.database).search()

    assert set(await pauses_of_steps(log, monkeypatch)) == {1 / 64}
    assert await log.assert_complete() == 5


async def test_a_step_reads_about_as_many_batches_as_it_seals(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large batches that wait are not read again in each step; small ones are read together."""
    limits: list[int] = []

    async def read_batches(transaction: Transaction, limit: int) -> dict[str, str]:
        limits.append(limit)
        return await unsealed_batches(transaction, limit)

    ada = await person(log.database, "ada", "1")
    await person(log.database, "bob")
    await log.sealer.seal_all()
    monkeypatch.setattr(sealing, "unsealed_batches", read_batches)
    monkeypatch.setattr(sealing, "STEP_MOVEMENTS", 20)
    for _ in range(20):
        await send(log.queue, ada, "@bob", 16)
    await log.sealer.seal_all()
    assert set(limits) == {sealing.STEP_BATCHES_MIN}

    for _ in range(40):
        await send(log.queue, ada, "@bob")
    await log.sealer.seal_all()
    assert max(limits) > 2 * sealing.STEP_BATCHES_MIN
    assert await log.assert_complete() == 1 + 20 * 16 + 40


class BusyDatabase(DelegatingDatabase):
    """A database in which something is written just before each transaction of the sealer."""

    def __init__(self, database: Database, write_first: Callable[[], Awaitable[None]]) -> None:
        super().__init__(database)
        self._write_first = write_first

    @override
    async def write(self, work: Work[Result], **options: Any) -> Result:
        await self._write_first()
        return await super().write(work, **options)


async def test_what_is_written_meanwhile_is_sealed_by_the_next_step_from_memory(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading it from the database would cost more than all the rest of sealing it."""
    ada = await person(log.database, "ada", "1")
    await person(log.database, "bob")
    await log.sealer.seal_all()
    read: list[Sequence[Place]] = []

    async def movements_at(_: Transaction, places: Sequence[Place]) -> list[None]:
        read.append(places)
        return []

    monkeypatch.setattr(sealing, "movements_at", movements_at)
    busy = log.another_sealer(BusyDatabase(log.database, lambda: send(log.queue, ada, "@bob")))

    steps = [await busy.seal_some() for _ in range(3)]

    assert [(step.movements, step.is_last) for step in steps] == [(0, True), (1, True), (1, True)]
    assert not any(read)
    assert await log.sealer.seal_all() == 1
    assert await log.assert_complete() == 4


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
