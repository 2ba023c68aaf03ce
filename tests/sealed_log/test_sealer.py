"""The sealer gives each movement exactly one leaf, whoever runs at the same time."""

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from ousel.database.addresses import open_database
from ousel.database.port import Database, Result, Transaction, Work
from ousel.kernel.clock import system_clock
from ousel.kernel.errors import DatabaseUnavailable, OutcomeUnknown
from ousel.ledger.queue import PostingQueue
from ousel.sealed_log import sealer as sealing
from tests.sealed_log.logs import Log, send
from tests.support.accounts import person
from tests.support.clock import ManualClock
from tests.support.controlled_database import ControlledDatabase
from tests.support.delegating_database import DelegatingDatabase
from tests.support.logs import captured_logs
from tests.support.postgres_proxy import Cut

CLOCK_STEPS = (-90, -1, 90)  # seconds by which the clock moves


async def test_a_server_whose_key_was_replaced_seals_nothing_and_says_so(log: Log) -> None:
    """It names the file; a server with the new key seals what has waited."""
    old = log.key_holder.key
    assert old is not None
    new = old.create_successor()
    await log.sealer.seal_all()
    log.key_holder.key = new
    await log.sealer.seal_all()
    log.key_holder.key = old
    await person(log.database, "ada", "1")

    sealer = log.another_sealer()
    with captured_logs() as logs:
        await sealer.seal_due()
        log.queue._context.batches_written += 1  # noqa: SLF001 - there is something to seal
        await sealer.seal_due()
    [line] = logs
    assert line["event"] == "sealing has stopped"
    assert f"put the file of that key at {log.key_holder.path}, and restart" in line["reason"]

    log.key_holder.key = new
    assert await log.sealer.seal_all() == 1


async def test_a_sealer_that_has_seen_more_than_there_is_says_so(log: Log) -> None:
    """The database went back, and what this process has published may not be contradicted."""
    await person(log.database, "ada", "1")
    await log.sealer.seal_all()
    log.key_holder.size_seen += 1
    with captured_logs() as logs:
        for _ in range(2):
            assert await log.sealer.seal_all() == 0
        log.key_holder.key, key = None, log.key_holder.key  # then it does not look
        assert await log.sealer.seal_all() == 0
        log.key_holder.key = key
        assert await log.sealer.seal_all() == 0
    [line] = logs
    assert line["event"] == "sealing has stopped"
    assert line["reason"].endswith("but it had 2 before: the database went back")


async def test_a_log_that_could_not_be_created_is_created_soon(log: Log) -> None:
    """A failure of the database at the first start delays it until the next poll."""
    await person(log.database, "ada", "1")
    controlled = ControlledDatabase(log.database)
    controlled.faults.append("away")
    sealer = log.another_sealer(controlled)
    with pytest.raises(DatabaseUnavailable):
        await sealer.seal_all()
    assert await sealer.seal_all() == 1


async def test_each_movement_gets_one_leaf(log: Log) -> None:
    """Movements that are written together or alone; what is sealed is not sealed again."""
    ada = await person(log.database, "ada", "1")
    await person(log.database, "bob")
    await send(log.queue, ada, "@bob", 40)

    assert await log.sealer.seal_all() == 41
    assert await log.sealer.seal_all() == 0
    await send(log.queue, ada, "@bob")
    assert await log.sealer.seal_all() == 1
    assert await log.assert_complete() == 42


async def test_many_movements_are_sealed_in_steps(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step takes whole batches, so no transaction of the sealer is long."""
    monkeypatch.setattr(sealing, "STEP_MOVEMENTS", 8)
    ada = await person(log.database, "ada", "1")
    await person(log.database, "bob")
    for count in (1, 5, 9, 1, 1, 1, 1):
        await send(log.queue, ada, "@bob", count)

    await log.sealer.create_log()
    first = await log.sealer.seal_some()

    assert 0 < first.movements < 20
    assert not first.is_last
    assert first.movements + await log.sealer.seal_all() == 20
    assert await log.assert_complete() == 20


async def test_several_sealers_and_writers_at_once(log: Log, database_url: str) -> None:
    """As several processes do it: each movement is sealed by one of them."""
    ada = await person(log.database, "ada", "1")
    await person(log.database, "bob", "1")
    stop = asyncio.Event()

    async def seal_until_stopped(database: Database) -> None:
        sealer = log.another_sealer(database)
        while not stop.is_set():
            await sealer.seal_all()
            await asyncio.sleep(0)

    async with open_database(database_url) as second:
        sealers = [asyncio.create_task(seal_until_stopped(each)) for each in (log.database, second)]
        queues = [
            PostingQueue(each, system_clock, queue_limit=99) for each in (log.database, second)
        ]
        for _ in range(10):
            await asyncio.gather(*(send(queue, ada, "@bob", 5) for queue in queues))
        stop.set()
        await asyncio.gather(*sealers)

    await log.sealer.seal_all()
    assert await log.assert_complete() == 102


async def test_a_movement_that_becomes_visible_late_is_sealed(
    postgres_url: str, tmp_path: Path
) -> None:
    """On PostgreSQL, a transaction may commit after others that began later are sealed."""
    async with open_database(postgres_url) as database:
        log = Log(database, tmp_path)
        ada, eve = await person(database, "ada", "1"), await person(database, "eve", "1")
        await person(database, "bob")
        await person(database, "joe")
        late = _LateCommits(database)
        slow_queue = PostingQueue(late, system_clock, queue_limit=9)
        sending = asyncio.create_task(send(slow_queue, ada, "@bob"))
        await late.is_written.wait()
        await send(log.queue, eve, "@joe")
        assert await log.sealer.seal_all() == 3

        late.may_commit.set()
        await sending

        assert await log.sealer.seal_all() == 1
        assert await log.assert_complete() == 4


class _LateCommits(DelegatingDatabase):
    """Holds back each commit until it is allowed."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.is_written = asyncio.Event()
        self.may_commit = asyncio.Event()

    @override
    async def write(self, work: Work[Result], **options: Any) -> Result:
        async def hold(transaction: Transaction) -> Result:
            result = await work(transaction)
            self.is_written.set()
            await self.may_commit.wait()
            return result

        return await super().write(hold, **options)


async def test_a_sealer_does_not_wait_for_another(postgres_url: str, tmp_path: Path) -> None:
    """It leaves the work to the one that has locked the log."""
    async with open_database(postgres_url) as database:
        log = Log(database, tmp_path)
        await person(database, "ada", "1")
        await log.sealer.seal_all()
        await person(database, "bob", "1")
        late = _LateCommits(database)
        slow = log.another_sealer(late)
        sealing_slowly = asyncio.create_task(slow.seal_some())
        await late.is_written.wait()

        assert await log.sealer.seal_all() == 0

        late.may_commit.set()
        assert (await sealing_slowly).movements == 1
        assert await log.assert_complete() == 2


actions = st.lists(
    st.one_of(
        st.integers(1, 4),  # transfers at once
        st.sampled_from(["seal", "before the commit", "after the commit"]),
        st.sampled_from(CLOCK_STEPS),
    ),
    max_size=8,
)


class History:
    """A ledger and its log, on which random actions are done."""

    def __init__(self, database: Database, folder: Path) -> None:
        self._controlled, self._clock = ControlledDatabase(database), ManualClock()
        self._log = Log(database, folder)
        self._sealer = self._log.another_sealer(self._controlled)
        self._queue = PostingQueue(database, self._clock, queue_limit=99)

    async def prepare(self) -> None:
        """Open two accounts, and seal the funding of one."""
        self._ada = await person(self._log.database, "ada", "1", self._clock)
        await person(self._log.database, "bob", None, self._clock)
        await self._sealer.seal_all()

    async def run(self, steps: list[int | Cut | Literal["seal"]]) -> None:
        """Do these actions, seal the rest, and check the log."""
        for step in steps:
            if step == "seal":
                await self._sealer.seal_all()
            elif isinstance(step, str):
                self._controlled.faults.append(step)
                with pytest.raises(OutcomeUnknown):
                    await self._sealer.seal_some()
            elif step in CLOCK_STEPS:
                self._clock.advance(seconds=step)
            else:
                await send(self._queue, self._ada, "@bob", step)
        await self._sealer.seal_all()
        await self._log.assert_complete()


def test_every_history_gives_each_movement_one_leaf(tmp_path: Path, database_url: str) -> None:
    """Whatever the order of transfers, sealing, lost answers and steps of the clock."""
    with asyncio.Runner() as runner:
        opened = open_database(database_url)
        history = History(runner.run(opened.__aenter__()), tmp_path)
        runner.run(history.prepare())

        @settings(max_examples=10, database=None)
        @given(actions)
        def run(steps: list[int | Cut | Literal["seal"]]) -> None:
            runner.run(history.run(steps))

        try:
            run()
        finally:
            runner.run(opened.__aexit__(None, None, None))
