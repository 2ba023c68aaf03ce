"""If another transaction locks a row, only the postings that need it wait, on few connections.

SQLite has no row locks, so here some rows only seem to be locked: this is quick, and decides when
a row is locked. The same rules are tested with real locks on PostgreSQL.
"""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

import pytest
from typing_extensions import override

from ousel.database.port import Database, Result, Transaction, Work
from ousel.database.retries import RowsLocked, TransientFailure
from ousel.kernel.clock import Clock, system_clock
from ousel.kernel.deadlines import set_deadline
from ousel.kernel.errors import DeadlineExceeded
from ousel.ledger import journal
from ousel.ledger.batch import PostingResult
from ousel.ledger.interfaces import ChargeLocks
from ousel.ledger.queue import FIRST_WAITS_MAX, REPEATED_WAITS_MAX, PostingQueue
from ousel.ledger.refusals import QueueFull
from ousel.ledger.rules import Account, ChargeClosed, Movement, Posting
from tests.ledger.conftest import LedgerWorld
from tests.ledger.examples import posting
from tests.support.accounts import person, verify
from tests.support.delegating_database import DelegatingDatabase
from tests.support.waiting import until

pytestmark = pytest.mark.one_engine


class LockableCharges:
    """Charges, some of which another transaction seems to have locked."""

    def __init__(self) -> None:
        self.locked: set[str] = set()
        self.waits: list[str] = []
        self.paid: list[str] = []

    async def until_waited_for(
        self, charge_id: str, waiting: "asyncio.Task[PostingResult]", times: int = 1
    ) -> None:
        """Return when the posting has waited for its charge so many times, or has ended."""
        await until(lambda: self.waits.count(charge_id) >= times or waiting.done())

    async def wait(self, transaction: Transaction, charge_id: str) -> None:
        assert not transaction.follows_unknown_commit
        self.waits.append(charge_id)
        if charge_id in self.locked:
            raise TransientFailure(RowsLocked())

    async def lock(
        self, transaction: Transaction, charge_ids: Collection[str], clock: Clock, *, waits: bool
    ) -> ChargeLocks:
        assert waits is transaction.follows_unknown_commit
        blocked = self.locked.intersection(charge_ids)
        return ChargeLocks(clock(), dict.fromkeys(self.paid, "paid"), blocked)

    async def mark_paid(
        self, transaction: Transaction, payments: Sequence[Movement], now: int
    ) -> None:
        assert not transaction.follows_unknown_commit
        assert {each.debit.created_at for each in payments} == {now}
        self.paid += [each.debit.charge_id or "" for each in payments]


class WaitingDatabase(DelegatingDatabase):
    """A database in which a wait for a locked row takes a moment, and then gives up."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.waiting = self.waiting_max = 0

    @override
    async def write(self, work: Work[Result], **options: Any) -> Result:
        waits = not options.get("repeats_locked", True)
        self.waiting += waits
        self.waiting_max = max(self.waiting, self.waiting_max)
        try:
            await asyncio.sleep(0.002 if waits else 0)
            return await super().write(work, **options)
        finally:
            self.waiting -= waits


@pytest.fixture
def charges() -> LockableCharges:
    """Charges of which none is locked yet."""
    return LockableCharges()


class LockedAccounts(set[str]):
    """The ids of the accounts that another transaction seems to have locked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked_for: set[str] = set()
        self.waits: list[str] = []

    async def wait(self, transaction: Transaction, account_id: str) -> None:
        assert not transaction.follows_unknown_commit
        self.waits.append(account_id)
        if account_id in self:
            raise TransientFailure(RowsLocked())
        await wait_for_account(transaction, account_id)

    async def lock(
        self,
        transaction: Transaction,
        ids: set[str],
        *others: Any,
        awaited: str | None,
        waits: bool,
    ) -> journal.LockedLedger:
        if awaited is not None:
            await self.wait(transaction, awaited)
        if waits:
            self.clear()  # until the other transaction has ended
        self.asked_for |= ids
        return await lock_accounts(transaction, ids - self, *others, awaited=awaited, waits=waits)


lock_accounts = journal.lock_accounts
wait_for_account = journal.wait_for_account


@pytest.fixture
def accounts(monkeypatch: pytest.MonkeyPatch) -> LockedAccounts:
    """No account is locked yet."""
    locked = LockedAccounts()
    monkeypatch.setattr(journal, "lock_accounts", locked.lock)
    monkeypatch.setattr(journal, "wait_for_account", locked.wait)
    return locked


@pytest.fixture
def slow(world: LedgerWorld) -> WaitingDatabase:
    """The database in which waits take a moment."""
    return WaitingDatabase(world.database)


@pytest.fixture
def queue(slow: WaitingDatabase, charges: LockableCharges) -> PostingQueue:
    """A queue that pays these charges."""
    return PostingQueue(slow, system_clock, queue_limit=4, charge_rows=charges)


def payment(sender: Account, charge_id: str, amount: int = 10) -> Posting:
    return posting(sender.id, "@bob", amount, charge_id=charge_id)


def post(queue: PostingQueue, *postings: Posting) -> "list[asyncio.Task[PostingResult]]":
    """Post at once."""
    return [asyncio.create_task(queue.post(each)) for each in postings]


async def test_only_what_pays_a_locked_charge_waits(
    world: LedgerWorld, charges: LockableCharges, queue: PostingQueue
) -> None:
    """Others of the same batch and of the next are written; the payment follows when it can."""
    charges.locked = {"one"}

    blocked, other, second = post(
        queue,
        payment(world.ada, "one"),
        posting(world.ada.id, "@bob", 1),
        payment(world.ada, "two"),
    )
    await asyncio.gather(other, second)
    await queue.post(posting(world.ada.id, "@bob", 1))
    await charges.until_waited_for("one", blocked, times=3)
    assert await world.balances() == (88, 12)
    assert not blocked.done()
    charges.locked.clear()

    assert isinstance((await blocked).outcome, Movement)
    assert await world.balances() == (78, 22)
    assert charges.paid == ["two", "one"]
    assert set(charges.waits) == {"one"}
    await until(lambda: not queue._blocked_writers)  # noqa: SLF001 - the writer ends
    await verify(world.database)


@pytest.mark.parametrize("charge_id", [None, "one"])
@pytest.mark.parametrize("is_payer", [True, False])
async def test_only_what_needs_a_locked_account_waits(
    world: LedgerWorld,
    accounts: LockedAccounts,
    charges: LockableCharges,
    queue: PostingQueue,
    charge_id: str | None,
    *,
    is_payer: bool,
) -> None:
    """This holds for both accounts of a posting, also if it pays a charge."""
    eve = await person(world.database, "eve", "0.0001")
    locked, free = (world.ada, eve) if is_payer else (world.bob, world.ada)
    accounts.add(locked.id)

    blocked, other = post(
        queue,
        posting(world.ada.id, "@bob", 10, charge_id=charge_id),
        posting(free.id, "@eve" if free is world.ada else "@bob", 1),
    )
    await other
    await until(lambda: len(accounts.waits) > 1 or blocked.done())
    assert not blocked.done()
    accounts.clear()

    assert isinstance((await blocked).outcome, Movement)
    assert set(accounts.waits) == {locked.id}
    assert charges.paid == ([charge_id] if charge_id else [])
    await verify(world.database)


async def test_a_payment_that_waits_for_its_charge_locks_no_account(
    world: LedgerWorld, accounts: LockedAccounts, charges: LockableCharges, queue: PostingQueue
) -> None:
    """Others can use its accounts meanwhile."""
    eve = await person(world.database, "eve", "0.0001")
    charges.locked = {"one"}

    blocked, other = post(queue, payment(world.ada, "one"), posting(eve.id, "@bob", 1))
    await other
    assert world.ada.id not in accounts.asked_for
    charges.locked.clear()

    assert isinstance((await blocked).outcome, Movement)


async def test_no_account_is_left_out_after_a_lost_commit(
    world: LedgerWorld, accounts: LockedAccounts
) -> None:
    """The batch waits for locked accounts, because it must see what it has written."""

    async def lock_bob() -> None:
        accounts.add(world.bob.id)

    world.controlled.faults.append("after the commit")
    world.controlled.actions_after_fault.append(lock_bob)

    answer = await world.queue.post(posting(world.ada.id, "@bob", 30))

    assert isinstance(answer.outcome, Movement)
    assert await world.balances() == (70, 30)


async def test_payments_of_a_locked_charge_keep_their_order(
    world: LedgerWorld, charges: LockableCharges, queue: PostingQueue
) -> None:
    """They are written in two batches: those that found it locked, and those that came later."""
    charges.locked = {"one"}
    tasks = post(queue, payment(world.ada, "one", 1), payment(world.ada, "one", 2))
    await charges.until_waited_for("one", tasks[0])
    batches = queue.batches_written
    tasks += post(queue, payment(world.ada, "one", 3))
    await until(lambda: queue.waiting_count == 1)
    await charges.until_waited_for("one", tasks[0], times=4)
    charges.locked.clear()
    results = await asyncio.gather(*tasks)

    assert [type(each.outcome) for each in results] == [Movement, ChargeClosed, ChargeClosed]
    assert await world.balances() == (99, 1)
    assert queue.batches_written == batches + 2


async def test_waits_use_few_connections(
    world: LedgerWorld, slow: WaitingDatabase, charges: LockableCharges, queue: PostingQueue
) -> None:
    """However many rows are locked, the other connections stay free for other postings."""
    names = [f"charge_{number}" for number in range(4)]
    charges.locked = set(names)
    tasks = post(queue, *(payment(world.ada, name, 1) for name in names))
    for name, task in zip(names, tasks, strict=True):
        await charges.until_waited_for(name, task, times=3)
    charges.locked.clear()
    results = await asyncio.gather(*tasks)

    assert [type(each.outcome) for each in results] == [Movement] * 4
    assert slow.waiting_max == FIRST_WAITS_MAX + REPEATED_WAITS_MAX
    assert slow.waiting == 0


async def test_a_charge_that_stays_locked_is_waited_for_until_the_deadline(
    world: LedgerWorld, charges: LockableCharges, queue: PostingQueue
) -> None:
    """Then the payment is refused, and another one can still be made."""
    charges.locked = {"one"}

    async def post_briefly(wanted: Posting) -> PostingResult:
        set_deadline(asyncio.get_running_loop().time() + 0.05)
        return await queue.post(wanted)

    with pytest.raises(DeadlineExceeded):
        await asyncio.create_task(post_briefly(payment(world.ada, "one")))
    charges.locked.clear()
    await queue.post(payment(world.ada, "one", 1))

    assert await world.balances() == (99, 1)


async def test_postings_that_are_set_aside_count_as_waiting(
    world: LedgerWorld, charges: LockableCharges, queue: PostingQueue
) -> None:
    """They fill the queue; a queue that closes writes them first."""
    charges.locked = {"one"}
    tasks = post(queue, payment(world.ada, "one", 1))
    await charges.until_waited_for("one", tasks[0])
    tasks += post(queue, *(payment(world.ada, "one", 1) for _ in range(4)))
    await until(lambda: queue.waiting_count == 4)

    with pytest.raises(QueueFull):
        await queue.post(posting(world.ada.id, "@bob", 1))
    closing = asyncio.create_task(queue.close())
    charges.locked.clear()
    await closing

    assert all(task.done() for task in tasks)
    assert await world.balances() == (99, 1)
    assert queue.waiting_count == 0
