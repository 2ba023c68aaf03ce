"""Searching a history in steps: it finds the same entries, and other requests run in between."""

import asyncio
from collections.abc import Coroutine
from functools import partial
from itertools import product
from typing import Any

import msgspec
import pytest
from typing_extensions import override

from ousel.database.port import Database, Result, Work
from ousel.database.retries import RowsLocked
from ousel.kernel.cancellation import run_to_end
from ousel.kernel.clock import system_clock
from ousel.kernel.concurrency import SEARCHES_PER_ACCOUNT_MAX
from ousel.kernel.errors import DatabaseUnavailable, RateLimited
from ousel.kernel.ids import new_id
from ousel.ledger import search
from ousel.ledger.history import KINDS, HistoryQuery, page_of_entries
from ousel.ledger.queue import PostingQueue
from ousel.ledger.refusals import TransferNotFound
from ousel.ledger.rules import Account, Movement
from ousel.ledger.search import HistorySearch
from tests.ledger.examples import posting
from tests.support.accounts import person
from tests.support.clock import ManualClock
from tests.support.controlled_database import ControlledDatabase
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


async def test_searches_that_begin_together_share_one_connection(
    database: Database, ada: Account
) -> None:
    """Of one account, one first step runs at a time; another account's runs beside it."""
    begun = 0
    may_go_on = asyncio.Event()

    class SlowReads(DelegatingDatabase):
        @override
        async def read(self, work: Work[Result]) -> Result:
            nonlocal begun
            begun += 1
            await may_go_on.wait()
            return await super().read(work)

    seeker = HistorySearch(SlowReads(database))
    carol = await person(database, "carol", "1")
    queries = [HistoryQuery(account_id=ada.id, limit=1, kind="transfer")] * 8
    queries.append(HistoryQuery(account_id=carol.id, limit=1, kind="funding"))
    async with asyncio.TaskGroup() as group:
        searches = [group.create_task(seeker.find(query)) for query in queries]
        await until(lambda: begun)
        for _ in range(20):
            await asyncio.sleep(0)
        assert begun == 2
        may_go_on.set()
    assert [len(each.result().entries) for each in searches] == [2] * 8 + [1]


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
        with pytest.raises(TransferNotFound, match=r"^There is no transfer with this id\.$"):
            await seeker.find_transfer(ada.id, wrong)


class StepRecorder(DelegatingDatabase):
    """Records which task reads, and can hold searches after their first step."""

    def __init__(self, database: Database, *, holds: bool = True) -> None:
        super().__init__(database)
        self.readers: list[str] = []
        self.may_go_on = asyncio.Event()
        if not holds:
            self.may_go_on.set()
        self._began: set[asyncio.Task[Any]] = set()

    @override
    async def read(self, work: Work[Result]) -> Result:
        reader = asyncio.current_task()
        assert reader is not None
        if reader in self._began:
            await self.may_go_on.wait()
        self._began.add(reader)
        self.readers.append(reader.get_name())
        await asyncio.sleep(0)  # on SQLite too, reads suspend
        return await super().read(work)


class TimedTransfers:
    """Transfers of Ada, written by a clock that stands still between them."""

    def __init__(self, database: Database, ada: Account) -> None:
        self.clock = ManualClock()
        self.clock.advance(seconds=10)  # later than all that was written before
        self._recorder = StepRecorder(database, holds=False)
        self._seeker = HistorySearch(self._recorder)
        self._queue = PostingQueue(database, self.clock, queue_limit=10)
        self._ada = ada

    async def write(self, count: int, *, seconds: int = 0, ahead_micros: int = 0) -> list[str]:
        """Write transfers this long after each other, whose ids come from a clock that is ahead."""
        ids = []
        for _ in range(count):
            transfer_id = new_id("tr_", lambda: self.clock() + ahead_micros)
            sent = msgspec.structs.replace(posting(self._ada.id, "@bob"), transfer_id=transfer_id)
            await self._queue.post(sent)
            ids.append(transfer_id)
            self.clock.advance(seconds=seconds)
        return ids

    async def find(self, transfer_id: str) -> int:
        """Find the transfer; return how often the database was read."""
        self._recorder.readers.clear()
        _, entry, _ = await self._seeker.find_transfer(self._ada.id, transfer_id)
        assert entry.transfer_id == transfer_id
        return len(self._recorder.readers)

    async def find_nothing(self, transfer_id: str) -> int:
        """Search for a transfer that is not there; return how often the database was read."""
        with pytest.raises(TransferNotFound):
            await self.find(transfer_id)
        return len(self._recorder.readers)


async def test_a_transfer_is_found_by_one_read(database: Database, ada: Account) -> None:
    """The length of the history before and after it does not matter."""
    transfers = TimedTransfers(database, ada)

    for transfer_id in await transfers.write(2 * STEP_ENTRIES, seconds=60):
        assert await transfers.find(transfer_id) == 1


async def test_a_transfer_is_found_among_many_of_the_same_time(
    database: Database, ada: Account
) -> None:
    """The search ends where it finds the transfer."""
    transfers = TimedTransfers(database, ada)
    ids: list[str] = []
    for _ in range(2 * STEP_ENTRIES + 2):
        ids += await transfers.write(1)
        await transfers.find(ids[-1])

    assert [await transfers.find(each) for each in ids] == [1] * 5 + [3] * 5 + [4] * 2


async def test_a_transfer_is_found_if_its_id_is_ahead(database: Database, ada: Account) -> None:
    """This is true of a second and about a second; of more than an hour it is not."""
    transfers = TimedTransfers(database, ada)
    second = 1_000_000
    transfers.clock.now -= transfers.clock.now % 1_000  # an id has milliseconds
    for ahead_micros in (second - 1_000, second, second + 1_000, 3_599 * second):
        (transfer_id,) = await transfers.write(1, seconds=10, ahead_micros=ahead_micros)
        await transfers.find(transfer_id)

    (lost,) = await transfers.write(1, ahead_micros=3_601 * second)
    await transfers.find_nothing(lost)


async def test_an_unknown_id_is_searched_for_in_one_hour_once(
    database: Database, ada: Account
) -> None:
    """It is searched for near its time, and then in the hour before."""
    transfers = TimedTransfers(database, ada)
    await transfers.write(2 * STEP_ENTRIES, seconds=1_800)
    few = new_id("tr_", transfers.clock)
    assert await transfers.find_nothing(few) == 2

    await transfers.write(2 * STEP_ENTRIES)
    many = new_id("tr_", transfers.clock)
    assert await transfers.find_nothing(many) == 4


class LateCommit(DelegatingDatabase):
    """Commits something after the first read has ended."""

    def __init__(self, database: Database, late: Coroutine[Any, Any, object]) -> None:
        super().__init__(database)
        self._late = late

    @override
    async def read(self, work: Work[Result]) -> Result:
        found = await super().read(work)
        await self._late
        return found


async def test_a_key_is_looked_up_twice_before_it_is_reported_as_unused(
    database: Database, ada: Account
) -> None:
    """So a transfer that is committed during the first look-up is found."""
    queue = PostingQueue(database, system_clock, queue_limit=10)
    late = queue.post(posting(ada.id, "@bob", key="late"))
    query = HistoryQuery(account_id=ada.id, limit=1, idempotency_key="late")

    found = await HistorySearch(LateCommit(database, late)).find(query)

    assert [entry.idempotency_key for entry, _ in found.entries] == ["late"]
    assert (found.own.id, found.own.sequence) == (ada.id, ENTRIES + 1)


async def test_only_a_key_that_seems_unused_is_looked_up_twice(
    database: Database, ada: Account
) -> None:
    """The second look-up locks the account, which other queries do not."""
    controlled = ControlledDatabase(database)
    seeker = HistorySearch(controlled)
    queue = PostingQueue(database, system_clock, queue_limit=10)
    await queue.post(posting(ada.id, "@bob", key="used"))

    await seeker.find(HistoryQuery(account_id=ada.id, limit=1, idempotency_key="used"))
    await seeker.find(HistoryQuery(account_id=ada.id, limit=1, kind="charge_payment"))
    assert controlled.writes == 0
    await seeker.find(HistoryQuery(account_id=ada.id, limit=1, idempotency_key="unused"))
    assert controlled.writes == 1


async def test_a_key_is_not_reported_as_unused_by_a_look_up_that_may_have_failed(
    database: Database, ada: Account
) -> None:
    """If the second look-up cannot be committed, the caller is told to try again."""
    controlled = ControlledDatabase(database)
    controlled.faults.append("before the commit")
    query = HistoryQuery(account_id=ada.id, limit=1, idempotency_key="unused")

    with pytest.raises(DatabaseUnavailable, match=r"^The answer to the commit was lost") as failed:
        await HistorySearch(controlled).find(query)

    assert failed.value.retry_after_seconds == 1
    assert (await HistorySearch(controlled).find(query)).entries == []


async def test_an_account_has_a_limited_number_of_long_searches(
    database: Database, ada: Account
) -> None:
    """One more is refused with a time to wait; what needs no search is not, nor are others."""
    recorder = StepRecorder(database)
    seeker = HistorySearch(recorder)
    query = HistoryQuery(account_id=ada.id, limit=1, kind="charge_payment")
    carol = await person(database, "carol", "1")
    searches = [asyncio.create_task(seeker.find(query)) for _ in range(SEARCHES_PER_ACCOUNT_MAX)]
    await until(lambda: seeker._turns.is_reached(ada.id))  # noqa: SLF001

    with pytest.raises(RateLimited, match="at most 4 long searches at the same time") as refused:
        await seeker.find(query)
    assert len(recorder.readers) == SEARCHES_PER_ACCOUNT_MAX
    for unlimited in (
        HistoryQuery(account_id=ada.id, limit=1),
        HistoryQuery(account_id=carol.id, limit=1, kind="funding"),
    ):
        assert (await asyncio.create_task(seeker.find(unlimited))).entries
    recorder.may_go_on.set()
    assert refused.value.retry_after_seconds == 1
    await asyncio.gather(*searches)
    assert not (await seeker.find(query)).entries


async def test_searches_that_begin_together_are_limited_too(
    database: Database, ada: Account
) -> None:
    """One more than allowed is refused, unless its first step has found enough."""
    recorder = StepRecorder(database)
    seeker = HistorySearch(recorder)
    query = HistoryQuery(account_id=ada.id, limit=1, kind="charge_payment")
    count = SEARCHES_PER_ACCOUNT_MAX + 1
    searches = [asyncio.create_task(seeker.find(query)) for _ in range(count)]
    short = HistoryQuery(account_id=ada.id, limit=1, kind="transfer")

    assert (await asyncio.create_task(seeker.find(short))).entries
    (refused,), accepted = await asyncio.wait(searches, return_when=asyncio.FIRST_COMPLETED)
    recorder.may_go_on.set()

    assert isinstance(refused.exception(), RateLimited)
    assert [found.entries for found in await asyncio.gather(*accepted)] == [[]] * (count - 1)


async def test_a_canceled_search_reads_no_further(database: Database, ada: Account) -> None:
    """It takes no further step, and its place is free for another search at once."""
    recorder = StepRecorder(database)
    seeker = HistorySearch(recorder)
    query = HistoryQuery(account_id=ada.id, limit=1, kind="charge_payment")
    searches = [asyncio.create_task(seeker.find(query)) for _ in range(SEARCHES_PER_ACCOUNT_MAX)]
    await until(lambda: seeker._turns.is_reached(ada.id))  # noqa: SLF001

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
    await until(lambda: seeker._turns.is_reached(ada.id))  # noqa: SLF001
    searching = asyncio.create_task(seeker.find(queries["bob"]), name="bob")
    await until(lambda: "bob" in recorder.readers)
    recorder.may_go_on.set()
    await searching
    readers = recorder.readers.copy()
    await asyncio.gather(*crowd)

    steps = readers[readers.index("bob") + 1 :]
    assert steps.count("bob") == ENTRIES // STEP_ENTRIES
    assert "ada ada" not in " ".join(steps[steps.index("bob") :])


class LockedDatabase(DelegatingDatabase):
    """A database in which another transaction keeps the account locked."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.attempts = 0
        self.at_once = self.at_once_max = 0
        self.options: dict[str, Any] = {}

    @override
    async def write(self, work: Work[Result], **options: Any) -> Result:
        self.attempts += 1
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        self.options = options
        try:
            return await run_to_end(self._wait_in_vain())
        finally:
            self.at_once -= 1

    async def _wait_in_vain(self) -> Any:
        await asyncio.sleep(0.01)
        raise RowsLocked


@pytest.mark.parametrize("ended_by", ["its time", "its client"])
async def test_a_look_up_ends_while_the_account_stays_locked(
    database: Database, ada: Account, monkeypatch: pytest.MonkeyPatch, ended_by: str
) -> None:
    """It is tried again until its time is over, or until its client has hung up."""
    locked = LockedDatabase(database)
    if ended_by == "its time":
        monkeypatch.setattr(search, "KEY_SECONDS_MAX", 0.1)
    query = HistoryQuery(account_id=ada.id, limit=1, idempotency_key="unused")
    looking = asyncio.create_task(HistorySearch(locked).find(query))
    if ended_by == "its client":
        await until(lambda: locked.attempts > 1)
        looking.cancel()

    with pytest.raises(RowsLocked):
        await looking


async def test_look_ups_of_one_account_wait_for_each_other(
    database: Database, ada: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So whoever looks up many keys of a locked account takes one connection, and no more."""
    monkeypatch.setattr(search, "KEY_SECONDS_MAX", 0.3)
    grace, locked = await person(database, "grace"), LockedDatabase(database)
    histories = HistorySearch(locked)
    queries = [
        HistoryQuery(account_id=account.id, limit=1, idempotency_key="unused")
        for account in (ada, ada, grace)
    ]

    looked_up = await asyncio.gather(*map(histories.find, queries), return_exceptions=True)

    assert [type(each) for each in looked_up] == [RowsLocked] * 3
    assert locked.at_once_max == 2
    assert locked.options == {"repeats_locked": False}  # an attempt does not keep its connection
