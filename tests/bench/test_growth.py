"""The measurement of growing ledgers writes entries by itself: they must form a right ledger."""

import asyncio

import pytest

from bench.growth import History
from ousel.database.port import Database
from ousel.workload.sample_data import create_sample_data
from tests.support.accounts import verify

pytestmark = pytest.mark.slow

ENTRIES = 500


async def test_a_grown_history_verifies(database: Database, database_url: str) -> None:
    """Balances, sequences, hashes and dates are those that transfers would have written."""
    await asyncio.to_thread(create_sample_data, database_url, partners=2, recipients=10)
    await History(database_url).grow(ENTRIES)

    assert (await verify(database)).entries >= ENTRIES * 0.9
