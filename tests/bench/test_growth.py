"""The measurement of growing ledgers writes history by itself: it must form a right ledger."""

import asyncio

import pytest

from bench.growth import History
from ousel.database.port import Database
from ousel.sealed_log.backfill import is_needed
from ousel.sealed_log.keys import new_key
from ousel.workload.sample_data import create_sample_data, verify_ledger
from tests.support.accounts import verify

pytestmark = pytest.mark.slow

ENTRIES = 500


async def test_a_grown_history_verifies(database: Database, database_url: str) -> None:
    """Entries and leaves are those that transfers would have written; nothing is left to seal."""
    await asyncio.to_thread(create_sample_data, database_url, partners=2, recipients=10)
    history = History(database_url, new_key("tests.example/log"))
    await history.grow(ENTRIES // 2)
    await history.grow(ENTRIES)

    assert (await verify(database)).entries >= ENTRIES * 0.9
    verified = await asyncio.to_thread(verify_ledger, database_url)
    assert verified.transfers >= ENTRIES * 0.45
    assert not await database.snapshot(is_needed), "a server would begin a backfill"
