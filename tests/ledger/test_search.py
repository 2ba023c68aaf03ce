"""Searching a history in steps: it finds the same entries, and other requests run in between."""

import asyncio
from functools import partial
from itertools import product
from typing import Any

import msgspec
import pytest
from typing_extensions import override

from ousel.database.port import Database, Result, Work
from ousel.kernel.clock import system_clock
from ousel.kernel.errors import RateLimited
from ousel.kernel.ids import new_id
from ousel.ledger import search
from ousel.ledger.history import KINDS, HistoryQuery, page_of_entries
from ousel.ledger.queue import PostingQueue
from ousel.ledger.refusals import TransferNotFound
from ousel.ledger.rules import Account, Movement
from ousel.ledger.search import SEARCHES_PER_ACCOUNT_MAX, HistorySearch
from tests.ledger.examples import posting
from tests.support.accounts import person
from tests.support.delegating_database import DelegatingDatabase
from tests.support.waiting import until

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
    for limit, oldest_first, border, direction, kind in product(
        (1, 2, 4, 7, 50),
        (False, True),
        (1, 2, 6, 17, 41, 42, 2**62),
        (None, "in", "out"),
        (None, *KINDS),
    ):
        query = HistoryQuery(
            account_id=ada.id,
            limit=limit,
            oldest_first=oldest_first,
            after_sequence=border if oldest_first else 0,
            before_sequence=None if oldest_first else border,
            direction=direction,
            kind=kind,
        )
        found = await seeker.find(query)
        whole = await database.read(partial(page_of_entries, query=query))
        assert [entry for entry, _ in found.entries] == [entry for entry, _ in whole], query
        assert found.own.id == ada.id


async def test_other_tasks_run_between_the_steps_of_many_searches(
    database: Database, ada: Account
) -> None:
    """While many searches find nothing, the event loop runs other tasks after each step."""
    seeker = HistorySearch(database)
    query = HistoryQuery(account_id=ada.id, limit=1, kind="charge_payment")
    searching = asyncio.gather(*(seeker.find(query, has_limit=False) for _ in range(8)))
    turns = 0
    while not searching.done():
        await asyncio.sleep(0)
        turns += 1
    assert all(found.entries == [] for found in await searching)
    assert turns > 8 * (ENTRIES // STEP_ENTRIES)


async def test_a_transfer_is_found_by_its_id(database: Database, ada: Account) -> None:
    """It is found near the time in its id, even if the clock that made the id was ahead."""
    seeker = HistorySearch(database)
    queue = PostingQueue(database, system_clock, queue_limit=100)
    made: dict[str, tuple[str, str]] = {}
    for minutes in (0, -5, 40):
        transfer_id = new_id("tr_", lambda: system_clock() + minutes * 60_000_000)  # noqa: B023
        sent = msgspec.structs.replace(posting(ada.id, "@bob"), transfer_id=transfer_id)
        result = await queue.post(sent)
        assert isinstance(result.outcome, Movement)
        assert result.credit_account is not None
        made[transfer_id] = (result.outcome.debit.hash, result.credit_account.id)
        for _ in range(2 * STEP_ENTRIES):
            await queue.post(posting(ada.id, "@bob"))

    for transfer_id, (digest, bob_id) in made.items():
        sent_by_ada = await seeker.find_transfer(ada.id, transfer_id)
        received_by_bob = await seeker.find_transfer(bob_id, transfer_id)
        own, entry, counterparty = sent_by_ada
        assert (own.id, entry.hash, counterparty.id) == (ada.id, digest, bob_id)
        assert received_by_bob[1].transfer_id == transfer_id
        assert received_by_bob[0].id == received_by_bob[1].account_id == bob_id


async def test_an_id_that_no_transfer_of_the_account_has_finds_nothing(
    database: Database, ada: Account
) -> None:
    """Unknown ids, malformed ids, ids of other kinds and transfers of others find nothing."""
    seeker = HistorySearch(database)
    carol = await person(database, "carol", "1")
    queue = PostingQueue(database, system_clock, queue_limit=100)
    transfer_id = new_id("tr_", system_clock)
    own = msgspec.structs.replace(posting(carol.id, "@bob"), transfer_id=transfer_id)
    await queue.post(own)

    assert (await seeker.find_transfer(carol.id, transfer_id))[0].id == carol.id
    for wrong in (
        transfer_id,
        transfer_id.replace("tr_", "ch_"),
        transfer_id[:-1],
        transfer_id.upper(),
        "tr_" + "0" * 26,
        "tr_" + "v" * 26,
        "",
    ):
        with pytest.raises(TransferNotFound):
            await seeker.find_transfer(ada.id, wrong)


class StepRecorder(DelegatingDatabase):
    """Records which task reads, and can hold searches after their first step."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.readers: list[str] = []
        self.may_go_on = asyncio.Event()
        self._began: set[asyncio.Task[Any]] = set()

    @override
    async def read(self, work: Work[Result]) -> Result:
        reader = asyncio.current_task()
        assert reader is not None
        if reader in self._began:
            await self.may_go_on.wait()
        self._began.add(reader)
        self.readers.append(reader.get_name())
        return await super().read(work)


async def test_an_account_has_a_limited_number_of_long_searches(
    database: Database, ada: Account
) -> None:
    """One more is refused with a time to wait; what needs no search is not, nor are others."""
    recorder = StepRecorder(database)
    seeker = HistorySearch(recorder)
    query = HistoryQuery(account_id=ada.id, limit=1, kind="charge_payment")
    carol = await person(database, "carol", "1")
    searches = [asyncio.create_task(seeker.find(query)) for _ in range(SEARCHES_PER_ACCOUNT_MAX)]
    await until(lambda: seeker._limit.is_reached(ada.id))  # noqa: SLF001

    with pytest.raises(RateLimited) as refused:
        await seeker.find(query)
    for unlimited in (
        HistoryQuery(account_id=ada.id, limit=1),
        HistoryQuery(account_id=carol.id, limit=1, kind="funding"),
    ):
        assert (await asyncio.create_task(seeker.find(unlimited))).entries
    recorder.may_go_on.set()
    assert refused.value.retry_after_seconds == 1
    await asyncio.gather(*searches)
    assert not (await seeker.find(query)).entries


async def test_a_canceled_search_reads_no_further(database: Database, ada: Account) -> None:
    """It takes no further step, and its place is free for another search at once."""
    recorder = StepRecorder(database)
    seeker = HistorySearch(recorder)
    query = HistoryQuery(account_id=ada.id, limit=1, kind="charge_payment")
    searches = [asyncio.create_task(seeker.find(query)) for _ in range(SEARCHES_PER_ACCOUNT_MAX)]
    await until(lambda: seeker._limit.is_reached(ada.id))  # noqa: SLF001

    for each in searches:
        each.cancel()
    recorder.may_go_on.set()
    await asyncio.gather(*searches, return_exceptions=True)

    assert all(each.cancelled() for each in searches)
    assert len(recorder.readers) == SEARCHES_PER_ACCOUNT_MAX
    assert not (await seeker.find(query)).entries


async def test_accounts_take_turns_whatever_the_number_of_their_searches(
    database: Database, ada: Account
) -> None:
    """Between two steps of one account there is at most one step of another."""
    recorder = StepRecorder(database)
    seeker = HistorySearch(recorder)
    newest = await seeker.find(HistoryQuery(account_id=ada.id, limit=1))
    bob_id = newest.entries[0][1].id
    queries = {
        name: HistoryQuery(account_id=id_, limit=1, kind="charge_payment")
        for name, id_ in (("ada", ada.id), ("bob", bob_id))
    }
    recorder.readers.clear()
    crowd = [
        asyncio.create_task(seeker.find(queries["ada"]), name="ada")
        for _ in range(SEARCHES_PER_ACCOUNT_MAX)
    ]
    await until(lambda: seeker._limit.is_reached(ada.id))  # noqa: SLF001
    searching = asyncio.create_task(seeker.find(queries["bob"]), name="bob")
    await until(lambda: "bob" in recorder.readers)
    recorder.may_go_on.set()
    await searching
    readers = recorder.readers.copy()
    await asyncio.gather(*crowd)

    steps = readers[readers.index("bob") + 1 :]
    assert steps.count("bob") == ENTRIES // STEP_ENTRIES
    assert "ada ada" not in " ".join(steps[steps.index("bob") :])
