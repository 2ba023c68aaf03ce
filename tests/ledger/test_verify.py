"""Verification of a correct ledger, also while others write."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

from ousel.database.port import Database
from ousel.kernel.clock import system_clock
from ousel.ledger.duplicate_finder import DuplicateFinder
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import Account, Entry
from ousel.ledger.verify import VerifiedTotals, verify_database, verify_ledger
from tests.ledger.examples import posting
from tests.ledger.tampering import People
from tests.support.accounts import person, verify
from tests.support.raw_sql import RawSql


async def test_a_correct_ledger_has_totals(database: Database, people: People) -> None:
    """The totals are whole numbers of entries, accounts, transfers and millionths."""
    figures = await verify(database)

    assert people.ada.id != people.bob.id
    assert (figures.entries, figures.accounts, figures.transfers) == (24, 3, 12)
    assert figures.issued == 2_000_000
    assert isinstance(figures.transfers, int)


async def test_an_empty_ledger_balances(database: Database) -> None:
    """A ledger without entries is correct."""
    figures = await verify(database)

    assert (figures.entries, figures.accounts, figures.issued) == (0, 1, 0)


class NoAccounts:
    """A ledger that has not even a system account."""

    async def accounts(self) -> AsyncIterator[Account]:
        for account in list[Account]():
            yield account

    async def entries(self) -> AsyncIterator[list[Entry]]:
        for page in list[list[Entry]]():
            yield page


async def test_without_accounts_nothing_is_in_circulation() -> None:
    """Nothing is wrong with such a ledger."""
    nothing = VerifiedTotals(entries=0, accounts=0, transfers=0, issued=0)

    assert await verify_ledger(NoAccounts()) == nothing


async def test_accounts_without_entries_balance(database: Database) -> None:
    """Accounts without entries may come before, between and after those with entries."""
    for name in ("aaa", "bbb", "ccc"):
        await person(database, name, "1" if name == "bbb" else None)

    assert (await verify(database)).accounts == 4


async def test_a_false_suspicion_is_no_error(
    database: Database, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transfer ids that only look like duplicates are compared, and found to differ."""
    assert people.ada.id != people.bob.id
    monkeypatch.setattr(DuplicateFinder, "suspects", lambda _: {0})
    monkeypatch.setattr(DuplicateFinder, "is_suspect", lambda *_: True)

    assert (await verify(database)).transfers == 12


async def test_progress_is_reported(
    database: Database, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The count grows page by page up to all entries, whatever the page size."""
    assert people.ada.id != people.bob.id
    for size in (1, 5, 7, 24, 100):
        counts: list[int] = []
        monkeypatch.setattr("ousel.ledger.verify.PAGE_ENTRIES", size)
        figures = await database.snapshot(partial(verify_database, progress=counts.append))
        assert counts == [*range(size, 24, size), 24]
        assert figures.entries == 24


async def test_every_account_and_entry_is_read_whatever_the_page_size(
    database: Database, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The observer gets each entry once."""
    monkeypatch.setattr("ousel.ledger.verify.PAGE_ACCOUNTS", 1)
    monkeypatch.setattr("ousel.ledger.verify.PAGE_ENTRIES", 5)
    observed: list[tuple[str, int]] = []

    figures = await database.snapshot(
        partial(
            verify_database,
            observer=lambda page: observed.extend(
                (each.account_id, each.sequence) for each in page
            ),
        )
    )

    assert figures.accounts == 3
    assert len(set(observed)) == len(observed) == 24
    assert (people.ada.id, 11) in observed


async def test_verification_runs_beside_writers(
    database: Database, people: People, raw_sql: RawSql
) -> None:
    """While others write, verification checks one snapshot and does not block them."""
    queue = PostingQueue(database, system_clock, queue_limit=1_000)
    written = 0
    enough = False

    async def write() -> None:
        nonlocal written
        while not enough:
            await asyncio.gather(*(queue.post(posting(people.ada.id, "@bob", 1)) for _ in range(5)))
            written += 5

    writing = asyncio.create_task(write())
    proofs: list[int] = []
    while len(set(proofs)) < 3:
        proofs.append((await verify(database)).transfers)
        await asyncio.wait({writing}, timeout=0.01)
    enough = True
    await writing

    assert proofs == sorted(proofs)
    assert (await verify(database)).transfers == 12 + written
    assert await raw_sql.run("SELECT COUNT(*) FROM entries") == [(2 * (12 + written),)]
