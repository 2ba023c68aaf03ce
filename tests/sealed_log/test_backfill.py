"""Movements that an older version of Ousel wrote get leaves too, each exactly one."""

import asyncio
from contextlib import suppress

import pytest
from typing_extensions import override

from ousel.app.ousel import Ousel
from ousel.database.port import Database, Result, Transaction, Work
from ousel.database.statements import Statement
from ousel.kernel.clock import system_clock
from ousel.kernel.errors import DatabaseUnavailable
from ousel.kernel.settings import Settings
from ousel.ledger.queue import PostingQueue
from ousel.sealed_log import backfill, store
from ousel.sealed_log.backfill import BackfillSearch
from tests.sealed_log.logs import Log, send
from tests.support.accounts import person
from tests.support.delegating_database import DelegatingDatabase
from tests.support.engines import Engine
from tests.support.raw_sql import RawSql
from tests.support.waiting import assert_none_ends, until_async

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


async def test_a_backfill_waits_until_it_can_lock_the_log(
    log: Log, raw_sql: RawSql, engine: Engine
) -> None:
    """A sealer locks the log now and then, and the next search is ten minutes later."""
    await person(log.database, "ada", "1")
    await log.sealer.create_log()
    await raw_sql.run(WITHOUT_ROWS)
    await raw_sql.run("BEGIN IMMEDIATE" if engine == "sqlite" else "BEGIN")
    await raw_sql.run("UPDATE sealed_log SET size = size")

    starting = asyncio.create_task(log.database.write(backfill.start))
    await assert_none_ends(starting, seconds=0.3)
    await raw_sql.run("COMMIT")
    await starting

    assert (await log.database.read(store.read_head)).is_backfilling


async def test_a_search_is_made_at_once_and_then_every_ten_minutes(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a search that failed, which may have read for minutes, the next one is made sooner."""
    time, searches = [100.0], list[float]()

    async def search() -> None:
        searches.append(time[0] - 100.0)
        if len(searches) == 1:
            time[0] += 120
            raise DatabaseUnavailable("The server restarts.")

    monkeypatch.setattr(backfill, "monotonic", lambda: time[0])
    backfill_search = BackfillSearch(log.database)
    monkeypatch.setattr(backfill_search, "search", search)
    for _ in range(1_000):
        with suppress(DatabaseUnavailable):
            await backfill_search.search_due()
        time[0] += 1

    assert searches == [0.0, 180.0, 780.0]


async def test_a_server_makes_the_search(
    log: Log, database_url: str, raw_sql: RawSql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an older version has written is sealed soon after an upgrade."""
    await person(log.database, "ada", "1")
    await raw_sql.run(WITHOUT_ROWS)
    monkeypatch.setattr("ousel.app.background_tasks.SEARCH_TICK_SECONDS", 0.01)

    async def is_sealed() -> bool:
        return (await log.database.read(store.read_head)).size == 1

    async with Ousel(Settings(database_url=database_url)).running():
        await until_async(is_sealed)
