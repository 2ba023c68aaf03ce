"""Movements that an older version of Ousel wrote get leaves too, each exactly one."""

from contextlib import suppress

import pytest
from typing_extensions import override

from ousel.database.port import Database, Result, Transaction, Work
from ousel.database.statements import Statement
from ousel.kernel.clock import system_clock
from ousel.ledger.queue import PostingQueue
from ousel.sealed_log import backfill, store
from ousel.sealed_log.backfill import BackfillSearch
from tests.sealed_log.logs import Log, send
from tests.support.accounts import person
from tests.support.controlled_database import ControlledDatabase
from tests.support.delegating_database import DelegatingDatabase
from tests.support.raw_sql import RawSql

WITHOUT_ROWS = "DELETE FROM unsealed_batches"  # as an older version leaves the database


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill, "PAGE_ENTRIES", 7)


async def test_the_movements_of_before_an_upgrade_are_sealed(log: Log, raw_sql: RawSql) -> None:
    """Together with those that are written meanwhile."""
    ada = await person(log.database, "ada", "1")
    await person(log.database, "bob", "1")
    for _ in range(5):
        await send(log.queue, ada, "@bob", 4)
    await raw_sql.run(WITHOUT_ROWS)
    await send(log.queue, ada, "@bob", 3)
    await BackfillSearch(log.database).search()

    assert await log.sealer.seal_all() == 25
    assert await log.assert_complete() == 25
    await BackfillSearch(log.database).search()
    assert await log.another_sealer().seal_all() == 0


async def test_old_and_new_servers_may_write_at_the_same_time(log: Log, raw_sql: RawSql) -> None:
    """What an old server writes during or after a backfill is found by the next one."""
    ada = await person(log.database, "ada", "1")
    await person(log.database, "bob", "1")
    await raw_sql.run(WITHOUT_ROWS)
    await BackfillSearch(log.database).search()
    await log.sealer.seal_all()
    for _ in range(3):
        await send(log.queue, ada, "@bob", 2)
        await raw_sql.run(WITHOUT_ROWS)
        await send(log.queue, ada, "@bob", 2)
        assert await log.sealer.seal_all() == 2

    await BackfillSearch(log.database).search()
    assert await log.another_sealer().seal_all() == 6
    assert await log.assert_complete() == 14


async def test_a_backfill_survives_crashes(log: Log, raw_sql: RawSql) -> None:
    """Another sealer continues where the last complete step ended."""
    ada = await person(log.database, "ada", "1")
    await person(log.database, "bob", "1")
    for _ in range(12):
        await send(log.queue, ada, "@bob", 1)
    await raw_sql.run(WITHOUT_ROWS)
    sealed = 0
    for _ in range(2):
        sealer = log.another_sealer()
        await BackfillSearch(log.database).search()
        sealed += (await sealer.seal_some()).movements
        await send(PostingQueue(log.database, system_clock, queue_limit=9), ada, "@bob", 1)

    assert 0 < sealed < 16
    await log.another_sealer().seal_all()
    assert await log.assert_complete() == 16


class MissingRows(DelegatingDatabase):
    """A database whose first snapshot lacks the rows for the sealer, as it may be on Citus."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.snapshots = 0

    @override
    async def snapshot(self, work: Work[Result]) -> Result:
        self.snapshots += 1
        if self.snapshots > 1:
            return await super().snapshot(work)

        async def without_rows(transaction: Transaction) -> Result:
            await transaction.execute(Statement("delete the rows", WITHOUT_ROWS))
            result.append(await work(transaction))
            raise Cancel

        result: list[Result] = []
        with suppress(Cancel):
            await self.write(without_rows)
        return result[0]


class Cancel(Exception):
    """Ends a transaction without a commit."""


async def test_a_backfill_begins_only_if_it_is_needed_twice(log: Log) -> None:
    """It may take hours, so one odd snapshot is not enough."""
    await person(log.database, "ada", "1")
    odd = MissingRows(log.database)

    await BackfillSearch(odd).search()

    assert odd.snapshots == 2
    assert not (await log.database.read(store.read_head)).is_backfilling


async def test_a_search_is_made_at_once_and_then_every_ten_minutes(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that fails is not repeated at once: it may have read for minutes."""
    counted, time = ControlledDatabase(log.database), [100.0]
    monkeypatch.setattr(backfill, "monotonic", lambda: time[0])
    search = BackfillSearch(counted)
    for seconds in (0.0, 1.0, backfill.SEARCH_SECONDS, 1.0):
        time[0] += seconds
        await search.search_due()

    assert counted.writes == 2
