"""Verification: books that balance are proven so, also while others write."""

import asyncio
from functools import partial

import pytest

from ousel.database.port import Database
from ousel.kernel.clock import system_clock
from ousel.ledger.queue import PostingQueue
from ousel.ledger.verify import verify_database
from tests.ledger.examples import posting
from tests.ledger.tampering import People
from tests.support.accounts import person, verify
from tests.support.raw_sql import RawSql


async def test_books_that_balance_are_told_in_figures(database: Database, people: People) -> None:
    """The figures: entries, accounts, transfers, and the money in circulation."""
    figures = await verify(database)

    assert people.ada.id != people.bob.id
    assert (figures.entries, figures.accounts, figures.transfers) == (24, 3, 12)
    assert figures.issued == 2_000_000


async def test_empty_books_balance(database: Database) -> None:
    """Nothing has happened: nothing is wrong."""
    figures = await verify(database)

    assert (figures.entries, figures.accounts, figures.issued) == (0, 1, 0)


async def test_accounts_without_entries_balance(database: Database) -> None:
    """Accounts before, between and after those with entries are walked past."""
    for name in ("aaa", "bbb", "ccc"):
        await person(database, name, "1" if name == "bbb" else None)

    assert (await verify(database)).accounts == 4


async def test_progress_is_told(
    database: Database, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Page by page the count grows up to all entries, wherever pages end."""
    assert people.ada.id != people.bob.id
    for size in (1, 5, 7, 24, 100):
        counts: list[int] = []
        monkeypatch.setattr("ousel.ledger.verify.PAGE_ENTRIES", size)
        figures = await database.snapshot(partial(verify_database, progress=counts.append))
        assert counts == [*range(size, 24, size), 24]
        assert figures.entries == 24


async def test_verification_runs_beside_writers(
    database: Database, people: People, raw_sql: RawSql
) -> None:
    """While others write, verification proves the books of one moment, and hinders nobody."""
    queue = PostingQueue(database, system_clock, queue_limit=1_000)
    written = 0

    async def write() -> None:
        nonlocal written
        for _ in range(25):
            await asyncio.gather(*(queue.post(posting(people.ada.id, "@bob", 1)) for _ in range(5)))
            written += 5

    writing = asyncio.create_task(write())
    proofs = []
    while not writing.done():
        proofs.append((await verify(database)).transfers)
        await asyncio.wait({writing}, timeout=0.01)
    await writing

    assert proofs == sorted(proofs)
    assert len(set(proofs)) > 1
    assert (await verify(database)).transfers == 12 + written
    assert await raw_sql.run("SELECT COUNT(*) FROM entries") == [(2 * (12 + written),)]
