"""Searching a history in steps: it finds the same entries, and other requests run in between."""

import asyncio
from functools import partial
from itertools import product

import pytest

from ousel.database.port import Database
from ousel.kernel.clock import system_clock
from ousel.ledger import search
from ousel.ledger.history import KINDS, HistoryQuery, newest_entries
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import Account
from ousel.ledger.search import HistorySearch
from tests.ledger.examples import posting
from tests.support.accounts import person

ENTRIES = 41
STEP_ENTRIES = 5


@pytest.fixture
async def ada(database: Database, monkeypatch: pytest.MonkeyPatch) -> Account:
    """Ada, whose history takes several steps: first a funding, then transfers in and out."""
    monkeypatch.setattr(search, "STEP_ENTRIES", STEP_ENTRIES)
    ada = await person(database, "ada", "1")
    bob = await person(database, "bob", "1")
    queue = PostingQueue(database, system_clock, queue_limit=100)
    for number in range(1, ENTRIES):
        back = number % 13 == 0
        await queue.post(posting(bob.id, "@ada") if back else posting(ada.id, "@bob"))
    return ada


async def test_a_search_finds_the_same_as_one_query(database: Database, ada: Account) -> None:
    """This is true of all filters, whatever steps contain the matching entries."""
    seeker = HistorySearch(database)
    for limit, before, direction, kind in product(
        (1, 2, 4, 7, 50),
        (None, 1, 2, 6, 17, 41, 42, 2**62),
        (None, "in", "out"),
        (None, *KINDS),
    ):
        query = HistoryQuery(
            account_id=ada.id,
            limit=limit,
            before_sequence=before,
            direction=direction,
            kind=kind,
        )
        found = await seeker.find(query)
        whole = await database.read(partial(newest_entries, query=query))
        assert [entry for entry, _ in found.entries] == [entry for entry, _ in whole], query
        assert found.own.id == ada.id


async def test_other_tasks_run_between_the_steps_of_many_searches(
    database: Database, ada: Account
) -> None:
    """While many searches find nothing, the event loop runs other tasks after each step."""
    seeker = HistorySearch(database)
    query = HistoryQuery(account_id=ada.id, limit=1, kind="charge_payment")
    searching = asyncio.gather(*(seeker.find(query) for _ in range(8)))
    turns = 0
    while not searching.done():
        await asyncio.sleep(0)
        turns += 1
    assert all(found.entries == [] for found in await searching)
    assert turns > 8 * (ENTRIES // STEP_ENTRIES)
