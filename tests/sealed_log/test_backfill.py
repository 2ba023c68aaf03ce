"""Movements that an older version of Ousel wrote get leaves too, each exactly one."""

import pytest

from ousel.kernel.clock import system_clock
from ousel.ledger.queue import PostingQueue
from ousel.sealed_log import backfill
from ousel.sealed_log import sealer as sealing
from tests.sealed_log.logs import Log, send
from tests.support.accounts import person
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

    assert await log.sealer.seal_all() == 25
    assert await log.assert_complete() == 25
    assert await log.another_sealer().seal_all() == 0


async def test_old_and_new_servers_may_write_at_the_same_time(
    log: Log, raw_sql: RawSql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an old server writes during or after a backfill is found by the next one."""
    ada = await person(log.database, "ada", "1")
    await person(log.database, "bob", "1")
    await raw_sql.run(WITHOUT_ROWS)
    await log.sealer.seal_all()
    for _ in range(3):
        await send(log.queue, ada, "@bob", 2)
        await raw_sql.run(WITHOUT_ROWS)
        await send(log.queue, ada, "@bob", 2)
        assert await log.sealer.seal_all() == 2

    monkeypatch.setattr(sealing, "BACKFILL_POLL_SECONDS", 0.0)
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
        await sealer.create_log()
        sealed += (await sealer.seal_some()).movements
        await send(PostingQueue(log.database, system_clock, queue_limit=9), ada, "@bob", 1)

    assert 0 < sealed < 16
    await log.another_sealer().seal_all()
    assert await log.assert_complete() == 16
