"""Following a history: nothing missing, nothing twice, and nobody waits for what has happened."""

import asyncio
import secrets
from collections.abc import Coroutine, Iterator
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from ousel.database import change_notifier
from ousel.database.addresses import database_at
from ousel.database.port import Database, Result, Work
from ousel.kernel.clock import system_clock
from ousel.kernel.errors import DatabaseUnavailable
from ousel.ledger import following, search
from ousel.ledger.following import HistoryFollower, NextEntries
from ousel.ledger.history import HistoryQuery, matches, page_of_entries
from ousel.ledger.notifier import MovementNotifier
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import Account, Entry, Refused
from ousel.ledger.search import HistorySearch
from tests.ledger.examples import posting
from tests.support.accounts import person
from tests.support.delegating_database import DelegatingDatabase
from tests.support.engines import Engine
from tests.support.waiting import until

EXAMPLES = {"sqlite": 25, "postgresql": 10, "citus": 5}
LONG_SECONDS = 600.0  # nobody waits that long: the test would time out


class Write(NamedTuple):
    """Movements of one account that are written at the same time, by two processes."""

    sent: int
    received: int


class Step(NamedTuple):
    """A page that is read while movements are written."""

    limit: int
    write: Write


writes = st.builds(Write, st.integers(0, 4), st.integers(0, 4))
steps = st.lists(st.builds(Step, st.integers(1, 7), writes), max_size=8)


class FollowedLedger:
    """Ada, whose history is followed, Bob, and two processes that write."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        self._database = database_at(url)
        self.run(self._database.open())
        self.ada = self.run(person(self._database, "ada", "1"))
        self._bob = self.run(person(self._database, "bob", "1"))
        self._queues = [
            PostingQueue(self._database, system_clock, queue_limit=100) for _ in range(2)
        ]
        self._follower = follower_of(self._database, self._queues[0].notifier)

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._runner.run(work)

    def close(self) -> None:
        self.run(self._database.close())
        self._runner.close()

    async def head(self) -> int:
        """Return the number of Ada's last entry."""
        return (await self.read(0, 1)).own.sequence

    async def read(self, after: int, limit: int, direction: str | None = None) -> NextEntries:
        """Return Ada's next entries, without waiting."""
        return await self._follower.next_entries(next_query(self.ada, after, limit, direction), 0)

    async def write(self, write: Write) -> None:
        """Write these movements."""
        sent = [posting(self.ada.id, "@bob", key=secrets.token_hex(8)) for _ in range(write.sent)]
        received = [posting(self._bob.id, "@ada") for _ in range(write.received)]
        await asyncio.gather(
            *(self._queues[0].post(each) for each in sent),
            *(self._queues[1].post(each) for each in received),
        )

    async def entries_after(self, after: int) -> list[Entry]:
        """Return all entries of Ada after a number, as the journal has them."""
        return await self.found(next_query(self.ada, after, 10_000))

    async def found(self, query: HistoryQuery) -> list[Entry]:
        """Return what the database finds."""
        pairs = await self._database.read(lambda transaction: page_of_entries(transaction, query))
        return [entry for entry, _ in pairs]

    async def follow(self, after: int, steps: list[Step], direction: str | None) -> list[Entry]:
        """Read one page in each step while others write, and then what is left."""
        followed: list[Entry] = []
        for limit, write in steps:
            page, _ = await asyncio.gather(self.read(after, limit, direction), self.write(write))
            assert len(page.entries) <= limit
            followed += [entry for entry, _ in page.entries]
            after = page.position
        while (page := await self.read(after, 3, direction)).entries or page.has_more:
            followed += [entry for entry, _ in page.entries]
            after = page.position
        return followed


def next_query(
    account: Account, after: int, limit: int = 10, direction: str | None = None
) -> HistoryQuery:
    """Return the query of the entries after a number."""
    return HistoryQuery(
        account_id=account.id,
        limit=limit,
        oldest_first=True,
        after_sequence=after,
        direction=direction,
    )


def follower_of(database: Database, notifier: MovementNotifier) -> HistoryFollower:
    """Return a follower that waits with this notifier."""
    return HistoryFollower(database, HistorySearch(database), notifier)


@pytest.fixture
def ledger(database_url: str) -> Iterator[FollowedLedger]:
    """The ledger, on each engine."""
    opened = FollowedLedger(database_url)
    yield opened
    opened.close()


def test_pages_of_any_size_from_any_cursor_have_every_entry_once(
    ledger: FollowedLedger, engine: str
) -> None:
    """This is true whatever is written meanwhile, by this process and by another."""

    @settings(max_examples=EXAMPLES[engine])
    @given(st.integers(0, 40), steps, st.sampled_from([None, None, "in", "out"]))
    def agree(distance: int, steps: list[Step], direction: str | None) -> None:
        start = max(ledger.run(ledger.head()) - distance, 0)
        followed = ledger.run(ledger.follow(start, steps, direction))
        expected = ledger.run(ledger.entries_after(start))
        if direction is None:
            numbers = [entry.sequence for entry in followed]
            assert numbers == list(range(start + 1, start + 1 + len(expected)))
        else:
            expected = [each for each in expected if (each.amount < 0) == (direction == "out")]
        assert followed == expected

    agree()


def test_filters_decide_about_an_entry_as_the_database_does(
    ledger: FollowedLedger, engine: str
) -> None:
    """An entry that is read without filters passes them if the database would return it."""
    ledger.run(ledger.write(Write(3, 3)))
    ledger.run(ledger.write(Write(1, 2)))
    entries = ledger.run(ledger.entries_after(0))
    moments = sorted({each.created_at + shift for each in entries for shift in (-1, 0, 1)})
    queries = st.builds(
        HistoryQuery,
        account_id=st.just(ledger.ada.id),
        limit=st.just(10_000),
        oldest_first=st.just(value=True),
        direction=st.sampled_from([None, "in", "out"]),
        kind=st.sampled_from([None, "transfer", "funding"]),
        created_after=st.sampled_from([None, *moments]),
        created_before=st.sampled_from([None, *moments]),
        idempotency_key=st.sampled_from([None, None, *(each.idempotency_key for each in entries)]),
    )

    @settings(max_examples=EXAMPLES[engine])
    @given(queries)
    def agree(query: HistoryQuery) -> None:
        assert ledger.run(ledger.found(query)) == [each for each in entries if matches(query, each)]

    agree()


class CallCounter(DelegatingDatabase):
    """Counts what is read and written."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.reads = self.writes = 0

    @override
    async def write(self, work: Work[Result], **options: Any) -> Result:
        self.writes += 1
        return await super().write(work, **options)

    @override
    async def read(self, work: Work[Result]) -> Result:
        self.reads += 1
        return await super().read(work)


class WaitingWorld(NamedTuple):
    """Ada waits in this process; Bob has money."""

    counter: CallCounter
    ada: Account
    bob: Account
    queue: PostingQueue
    other_process: PostingQueue
    follower: HistoryFollower

    def wait(
        self, after: int, direction: str | None = None, seconds: float = LONG_SECONDS
    ) -> "asyncio.Task[NextEntries]":
        """Begin to wait for Ada's entry after this number."""
        query = next_query(self.ada, after, direction=direction)
        return asyncio.create_task(self.follower.next_entries(query, seconds))

    async def until_waiters(self, count: int) -> None:
        """Return when this many wait."""
        await until(lambda: self.queue.notifier.waiter_count == count)

    async def until_read(self, times: int) -> None:
        """Return when the database was read this often."""
        await until(lambda: self.counter.reads >= times)

    def nobody_waits(self) -> bool:
        """Return whether the notifier holds nothing any more."""
        notifier = self.queue.notifier
        return not notifier._awaited and notifier.waiter_count == 0  # noqa: SLF001


@pytest.fixture
async def waiting_world(database: Database) -> WaitingWorld:
    """Ada and Bob have one entry each."""
    ada, bob = await person(database, "ada", "1"), await person(database, "bob", "1")
    queue, other = (PostingQueue(database, system_clock, queue_limit=100) for _ in range(2))
    counter = CallCounter(database)
    return WaitingWorld(counter, ada, bob, queue, other, follower_of(counter, queue.notifier))


@pytest.mark.parametrize(("direction", "amounts"), [(None, (1, -1)), ("in", (1,)), ("out", (-1,))])
def test_a_direction_is_that_of_the_money(direction: str | None, amounts: tuple[int, ...]) -> None:
    """What is added to the account has come in, and what is taken from it has gone out."""
    query = HistoryQuery(account_id="acct_1", limit=1, direction=direction)
    entries = [
        Entry("acct_1", 1, "tr_1", "transfer", amount, 0, "acct_2", None, None, None, 1, "")
        for amount in (1, -1)
    ]

    assert tuple(each.amount for each in entries if matches(query, each)) == amounts


async def test_a_page_says_whether_more_entries_follow(waiting_world: WaitingWorld) -> None:
    """The position is that of the last entry of the page."""
    ada, bob = waiting_world.ada, waiting_world.bob
    for _ in range(2):
        await waiting_world.queue.post(posting(bob.id, "@ada"))

    for direction in (None, "in"):
        for limit in (1, 2, 3, 4):
            query = next_query(ada, 0, limit, direction)
            found = await waiting_world.follower.next_entries(query, 0)
            last = min(limit, 3)
            assert [entry.sequence for entry, _ in found.entries] == list(range(1, last + 1))
            assert (found.has_more, found.position) == (limit < 3, last)


@pytest.mark.parametrize(("entries_max", "reads"), [(9, 1), (8, 2), (4, 3), (2, 4)])
async def test_those_who_follow_at_the_same_time_share_a_read(
    waiting_world: WaitingWorld, monkeypatch: pytest.MonkeyPatch, entries_max: int, reads: int
) -> None:
    """It has a limited number of entries; whoever wants more of them reads alone."""
    monkeypatch.setattr(following, "SHARED_ENTRIES_MAX", entries_max)
    ada, bob, counter = waiting_world.ada, waiting_world.bob, waiting_world.counter
    for _ in range(3):
        await waiting_world.queue.post(posting(bob.id, "@ada"))
    counter.reads = 0

    pages = await asyncio.gather(
        *(
            waiting_world.follower.next_entries(next_query(account, after), 0)
            for account, after in ((ada, 1), (ada, 1), (ada, 4), (bob, 0), (bob, 2))
        )
    )

    numbers = [[entry.sequence for entry, _ in page.entries] for page in pages]
    assert numbers == [[2, 3, 4], [2, 3, 4], [], [1, 2, 3, 4], [3, 4]]
    assert [page.own.id for page in pages] == [ada.id] * 3 + [bob.id] * 2
    assert counter.reads == reads


async def test_a_page_with_entries_is_read_each_time(
    waiting_world: WaitingWorld, engine: Engine
) -> None:
    """Nobody comes back to it, and thousands of pages would fill the memory.

    SQLite shows whether anything was committed, so the empty page at the end is read once.
    """
    reads: list[int] = []
    for after in (0, 1):
        waiting_world.counter.reads = 0
        for _ in range(2):
            query = next_query(waiting_world.ada, after)
            await waiting_world.follower.next_entries(query, 0)
        reads.append(waiting_world.counter.reads)

    assert reads == [2, 1 if engine == "sqlite" else 2]


async def test_a_movement_of_this_process_ends_waits_at_once(
    waiting_world: WaitingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everyone who waits for either account is woken, without a poll; a refusal wakes nobody."""
    monkeypatch.setattr(change_notifier, "POLL_SECONDS", LONG_SECONDS)
    waits = [waiting_world.wait(1) for _ in range(3)]
    await waiting_world.until_waiters(3)

    refused = await waiting_world.queue.post(posting(waiting_world.bob.id, "@ada", 10**9))
    assert isinstance(refused.outcome, Refused)
    assert waiting_world.queue.notifier.waiter_count == 3
    result = await waiting_world.queue.post(posting(waiting_world.bob.id, "@ada"))

    for found in await asyncio.gather(*waits):
        [(entry, counterparty)] = found.entries
        assert (entry.sequence, found.position) == (2, 2)
        assert counterparty.id == waiting_world.bob.id
        assert result.credit_account is not None
    assert waiting_world.nobody_waits()


async def test_a_movement_of_another_process_ends_waits(waiting_world: WaitingWorld) -> None:
    """The notifier polls the database for what other processes write."""
    waiting = waiting_world.wait(1)
    await waiting_world.until_waiters(1)

    await waiting_world.other_process.post(posting(waiting_world.ada.id, "@bob"))

    assert [entry.sequence for entry, _ in (await waiting).entries] == [2]
    assert waiting_world.nobody_waits()


async def test_a_wait_goes_on_until_a_movement_matches(
    waiting_world: WaitingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not match is passed once, and not read again."""
    monkeypatch.setattr(change_notifier, "POLL_SECONDS", LONG_SECONDS)
    monkeypatch.setattr(search, "STEP_ENTRIES", 1)
    waiting = waiting_world.wait(0, "out")
    await waiting_world.until_waiters(1)
    await waiting_world.queue.post(posting(waiting_world.bob.id, "@ada"))
    await until(lambda: waiting_world.queue.notifier._awaited)  # noqa: SLF001
    assert not waiting.done()

    await waiting_world.queue.post(posting(waiting_world.ada.id, "@bob"))

    found = await waiting
    assert [entry.sequence for entry, _ in found.entries] == [3]
    assert found.position == 3
    assert waiting_world.counter.reads == 3


@pytest.mark.parametrize("page", [1, following.NEW_ENTRIES_PER_READ])
async def test_those_who_wait_with_filters_share_a_read(
    waiting_world: WaitingWorld, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    """However many wait for one account, a movement that matches for nobody costs little."""
    monkeypatch.setattr(change_notifier, "POLL_SECONDS", LONG_SECONDS)
    monkeypatch.setattr(following, "NEW_ENTRIES_PER_READ", page)
    counter, ada, bob = waiting_world.counter, waiting_world.ada, waiting_world.bob
    plain = next_query(ada, 1)
    waits = [
        asyncio.create_task(waiting_world.follower.next_entries(query, LONG_SECONDS))
        for query in (
            msgspec.structs.replace(plain, direction="out"),
            msgspec.structs.replace(plain, kind="redemption"),
            *(msgspec.structs.replace(plain, idempotency_key=f"unused-{n}") for n in range(5)),
        )
    ]
    await waiting_world.until_waiters(len(waits))
    counter.reads = counter.writes = 0

    for number in range(3):
        await waiting_world.queue.post(posting(bob.id, "@ada"))
        await waiting_world.until_read(number + 1)
        await waiting_world.until_waiters(len(waits))
        assert (counter.reads, counter.writes) == (number + 1, 0)

    for _ in range(3):  # without a wake-up: the other process does not notify
        await waiting_world.other_process.post(posting(bob.id, "@ada"))
    await waiting_world.queue.post(posting(ada.id, "@bob"))
    assert [entry.sequence for entry, _ in (await waits[0]).entries] == [8]
    for waiting in waits[1:]:
        waiting.cancel()
    await asyncio.wait(waits[1:])


@pytest.mark.parametrize("shared_entries", [following.SHARED_ENTRIES_MAX, 0])
async def test_a_page_after_a_wait_is_as_long_as_the_limit(
    waiting_world: WaitingWorld, monkeypatch: pytest.MonkeyPatch, shared_entries: int
) -> None:
    """It has the first of the entries that match, and says that others follow."""
    monkeypatch.setattr(change_notifier, "POLL_SECONDS", LONG_SECONDS)
    monkeypatch.setattr(following, "NEW_ENTRIES_PER_READ", 2)
    ada, bob, other_process = waiting_world.ada, waiting_world.bob, waiting_world.other_process
    query = msgspec.structs.replace(next_query(ada, 1), direction="out", limit=2)
    waiting = asyncio.create_task(waiting_world.follower.next_entries(query, LONG_SECONDS))
    await waiting_world.until_waiters(1)
    monkeypatch.setattr(following, "SHARED_ENTRIES_MAX", shared_entries)

    for sender, recipient in ((ada, "@bob"), (ada, "@bob"), (bob, "@ada"), (ada, "@bob")):
        await other_process.post(posting(sender.id, recipient))  # without a wake-up
    await waiting_world.queue.post(posting(bob.id, "@ada"))
    page = await waiting

    assert [entry.sequence for entry, _ in page.entries] == [2, 3]
    assert (page.has_more, page.position) == (True, 3)


async def test_a_waiter_who_has_seen_less_misses_nothing(
    waiting_world: WaitingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two who wait for one account, the one who knows less decides what counts as new."""
    monkeypatch.setattr(change_notifier, "POLL_SECONDS", 0.001)
    notifier = waiting_world.queue.notifier
    await waiting_world.other_process.post(posting(waiting_world.ada.id, "@bob"))
    before = waiting_world.ada  # as it was before its first entry
    now = (await waiting_world.follower.next_entries(next_query(before, 0), 0)).own
    ahead = asyncio.create_task(notifier.wait_for_movement(now, LONG_SECONDS))
    await waiting_world.until_waiters(1)

    await notifier.wait_for_movement(before, LONG_SECONDS)

    await ahead
    assert waiting_world.nobody_waits()


async def test_without_a_movement_the_wait_ends_in_time(waiting_world: WaitingWorld) -> None:
    """The page is then empty, and its position is where it began."""
    found = await waiting_world.wait(1, seconds=0.05)

    assert (found.entries, found.has_more, found.position) == ([], False, 1)
    assert waiting_world.nobody_waits()


async def test_a_wait_lasts_as_long_as_it_was_asked_for(
    waiting_world: WaitingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is true of less than a second as well."""
    loop = asyncio.get_running_loop()
    now = float(round(loop.time()))
    waits: list[float] = []

    async def wait(_: Account, seconds: float) -> None:
        nonlocal now
        waits.append(seconds)
        now += seconds

    monkeypatch.setattr(loop, "time", lambda: now)
    monkeypatch.setattr(waiting_world.queue.notifier, "wait_for_movement", wait)

    found = await waiting_world.follower.next_entries(next_query(waiting_world.ada, 1), 0.5)

    assert (found.entries, waits) == ([], [0.5])


async def test_a_stopping_server_ends_all_waits(waiting_world: WaitingWorld) -> None:
    """Those who wait get an empty page, and nobody waits any more."""
    waits = [waiting_world.wait(1) for _ in range(2)]
    await waiting_world.until_waiters(2)

    waiting_world.queue.notifier.stop()

    assert [found.entries for found in await asyncio.gather(*waits)] == [[], []]
    assert (await waiting_world.wait(1)).entries == []


async def test_a_canceled_wait_leaves_nothing_behind(waiting_world: WaitingWorld) -> None:
    """This happens when a caller closes its connection."""
    waiting = waiting_world.wait(1)
    await waiting_world.until_waiters(1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert waiting_world.nobody_waits()


async def test_a_database_that_lacks_what_was_read_is_refused(waiting_world: WaitingWorld) -> None:
    """An old copy of the database must not let a follower skip what is written next."""
    with pytest.raises(DatabaseUnavailable, match=r"^The database lacks transfers that came"):
        await waiting_world.wait(2)
