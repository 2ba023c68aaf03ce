"""An account's history: pages by sequence number, filters, and the search for a moment."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ousel.database.addresses import database_at
from ousel.database.port import Database
from ousel.kernel.clock import system_clock
from ousel.ledger.funding import fund_account
from ousel.ledger.history import KINDS, HistoryQuery, entry_of_transfer, page_of_entries
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import Account, Entry, Movement
from tests.ledger.examples import NOW, posting
from tests.support.accounts import person
from tests.support.clock import ManualClock

Result = TypeVar("Result")

LONG_AFTER = 2**62


async def find_entries(database: Database, query: HistoryQuery) -> list[Entry]:
    """Return the entries that a query finds, including the additional one."""
    pairs = await database.read(lambda transaction: page_of_entries(transaction, query))
    assert all(entry.counterparty_id == other.id for entry, other in pairs)
    return [entry for entry, _ in pairs]


class AccountWithHistory:
    """An account with forty entries, some of which have the same time."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        self._database = database_at(url)
        self._clock = ManualClock(NOW)
        self._run(self._database.open())
        self.ada = self._run(self._write())
        everything = HistoryQuery(account_id=self.ada.id, limit=1_000)
        self.entries = self.find(everything)

    def find(self, query: HistoryQuery) -> list[Entry]:
        """Return what the query finds."""
        return self._run(find_entries(self._database, query))

    def find_transfer(self, transfer_id: str, since: int) -> Entry:
        """Return the account's entry of that transfer."""
        return self._run(
            self._database.read(
                lambda each: entry_of_transfer(each, self.ada.id, transfer_id, since)
            )
        )

    def close(self) -> None:
        """Close the database."""
        self._run(self._database.close())
        self._runner.close()

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._runner.run(work)

    async def _write(self) -> Account:
        ada = await person(self._database, "ada", clock=self._clock)
        bob = await person(self._database, "bob", clock=self._clock)
        await fund_account(self._database, self._clock, ada, 1_000)
        queue = PostingQueue(self._database, self._clock, queue_limit=100)
        for number in range(39):
            self._clock.advance(micros=(0, 0, 3, 1, 0, 7)[number % 6])
            next_posting = posting(
                ada.id, "@bob", 1, key=f"key-{number}" if number % 5 == 0 else None
            )
            if number % 3 == 1:
                next_posting = posting(bob.id, "@ada", 1)
            if number % 7 == 2:
                next_posting = msgspec.structs.replace(next_posting, kind="charge_payment")
            await queue.post(next_posting)
        return ada


@pytest.fixture
def history(database_url: str) -> Iterator[AccountWithHistory]:
    """The account, on each engine."""
    account = AccountWithHistory(database_url)
    yield account
    account.close()


def filter_entries(entries: list[Entry], query: HistoryQuery) -> list[Entry]:
    """Return the entries that match the query, picked from all entries in memory."""
    wanted = [
        entry
        for entry in entries
        if entry.sequence > query.after_sequence
        and (query.before_sequence is None or entry.sequence < query.before_sequence)
        and (query.created_after is None or entry.created_at > query.created_after)
        and (query.created_before is None or entry.created_at < query.created_before)
        and (query.kind is None or entry.kind == query.kind)
        and (query.direction is None or (entry.amount < 0) == (query.direction == "out"))
        and (query.idempotency_key is None or entry.idempotency_key == query.idempotency_key)
    ]
    if query.oldest_first:
        wanted.reverse()
    return wanted[: query.limit + 1]


moments = st.none() | st.integers(NOW - 2, NOW + 75) | st.sampled_from([-(2**60), 0, LONG_AFTER])
queries = st.builds(
    HistoryQuery,
    account_id=st.just(""),
    limit=st.integers(1, 50),
    oldest_first=st.booleans(),
    after_sequence=st.integers(0, 45),
    before_sequence=st.none() | st.integers(0, 45),
    direction=st.sampled_from([None, "in", "out"]),
    kind=st.none() | st.sampled_from(KINDS),
    created_after=moments,
    created_before=moments,
    idempotency_key=st.sampled_from([None, None, None, "key-0", "key-5", "other"]),
)


def test_filters_find_exactly_the_matching_entries(history: AccountWithHistory) -> None:
    """This is true of any limit, order, cursor, direction, kind, key and times."""
    assert [entry.sequence for entry in history.entries] == list(range(40, 0, -1))
    assert len({entry.created_at for entry in history.entries}) < 30

    @given(queries)
    @example(HistoryQuery(account_id="", limit=1, before_sequence=0))
    @example(HistoryQuery(account_id="", limit=50, direction="in"))
    @example(HistoryQuery(account_id="", limit=50, direction="out"))
    @example(HistoryQuery(account_id="", limit=50, idempotency_key="key-5"))
    @example(HistoryQuery(account_id="", limit=9, created_after=NOW, created_before=NOW))
    def agree(query: HistoryQuery) -> None:
        wanted = msgspec.structs.replace(query, account_id=history.ada.id)
        assert history.find(wanted) == filter_entries(history.entries, wanted)

    agree()


def test_the_binary_search_finds_every_moment(history: AccountWithHistory) -> None:
    """It is exact one microsecond before, at, and one after the time of each entry."""
    for entry in history.entries:
        for moment in (entry.created_at - 1, entry.created_at, entry.created_at + 1):
            after = HistoryQuery(account_id=history.ada.id, limit=100, created_after=moment)
            before = HistoryQuery(account_id=history.ada.id, limit=100, created_before=moment)
            assert history.find(after) == filter_entries(history.entries, after)
            assert history.find(before) == filter_entries(history.entries, before)


def test_an_entry_is_found_by_its_transfer(history: AccountWithHistory) -> None:
    """The search begins at the time of the transfer."""
    for entry in history.entries:
        assert history.find_transfer(entry.transfer_id, entry.created_at) == entry


async def test_an_account_without_entries_has_an_empty_history(database: Database) -> None:
    """No query finds anything."""
    ada = await person(database, "ada")

    for query in (
        HistoryQuery(account_id=ada.id, limit=10),
        HistoryQuery(account_id=ada.id, limit=10, created_after=0),
        HistoryQuery(account_id=ada.id, limit=10, created_before=LONG_AFTER),
    ):
        assert await find_entries(database, query) == []


async def test_a_history_contains_counterparties(database: Database) -> None:
    """Each entry comes with the account of its counterparty."""
    ada, bob = await person(database, "ada", "1"), await person(database, "bob")
    queue = PostingQueue(database, system_clock, queue_limit=10)
    posted = await queue.post(posting(ada.id, "@bob", 5, note="Tea"))

    query = HistoryQuery(account_id=bob.id, limit=10)
    (entry, other), *rest = await database.read(lambda each: page_of_entries(each, query))

    assert isinstance(posted.outcome, Movement)
    assert entry == posted.outcome.credit
    assert (other.id, other.username) == (ada.id, "ada")
    assert rest == []


async def test_paging_skips_and_repeats_nothing_while_others_write(database: Database) -> None:
    """All pages together contain each entry exactly once, whatever is written meanwhile."""
    ada = await person(database, "ada", "1")
    await person(database, "bob")
    queue = PostingQueue(database, system_clock, queue_limit=100)
    await asyncio.gather(*(queue.post(posting(ada.id, "@bob")) for _ in range(50)))
    done = asyncio.Event()

    async def others() -> None:
        while not done.is_set():
            await asyncio.gather(*(queue.post(posting(ada.id, "@bob")) for _ in range(3)))

    writing = asyncio.create_task(others())
    walks = [await _walk(database, ada.id, 12)]
    while walks[-1][0] == walks[0][0]:  # until the others have written
        walks.append(await _walk(database, ada.id, 12))
    done.set()
    await writing

    for walked in walks:
        assert walked == list(range(walked[0], 0, -1))
    starts = [walked[0] for walked in walks]
    assert starts == sorted(starts)
    assert starts[0] >= 51


async def _walk(database: Database, account_id: str, limit: int) -> list[int]:
    walked: list[int] = []
    before: int | None = None
    while True:
        query = HistoryQuery(account_id=account_id, limit=limit, before_sequence=before)
        page = await find_entries(database, query)
        walked += [entry.sequence for entry in page[:limit]]
        if len(page) <= limit:
            return walked
        before = walked[-1]
        await asyncio.sleep(0.002)  # writers write between two pages
