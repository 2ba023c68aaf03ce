"""Creates, reads, lists, awaits, cancels and pays charges; each process has one service."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

from ousel.charges import transitions
from ousel.charges.lifecycle import is_final, is_overdue
from ousel.charges.notifier import ChargeNotifier
from ousel.charges.payment import payment_posting
from ousel.charges.reader import ChargeReader
from ousel.charges.refusals import ChargeNotFound, ChargeNotPayable, OwnCharge
from ousel.charges.rules import Charge, ChargeQuery, ChargeTerms, is_charge_id
from ousel.charges.search import ChargeSearch
from ousel.charges.transitions import Cancellation, CreatedCharge
from ousel.database.batching import SharedReads, SharedWrites
from ousel.database.port import Database, Result, Transaction, Work
from ousel.kernel.clock import MICROS_PER_SECOND, Clock
from ousel.kernel.concurrency import ConcurrencyLimit
from ousel.kernel.deadlines import NO_DEADLINE, current_deadline, deadline_exceeded
from ousel.kernel.errors import DatabaseUnavailable, Refusal
from ousel.kernel.futures import SharedCalls
from ousel.kernel.observers import NO_OBSERVER, ChargeObserver
from ousel.ledger.queue import PostingQueue
from ousel.ledger.refusals import IdempotencyConflict, QueueFull
from ousel.ledger.rules import ChargeClosed, Movement, Outcome, Refused

VISITOR_WAITS_MAX: Final = 5_000
WAITS_PER_ADDRESS_MAX: Final = 100


class ChargeService:
    """Opens the transactions that read and change charges.

    A final status that it returns is already written, so it never changes again.
    """

    def __init__(
        self,
        database: Database,
        posting_queue: PostingQueue,
        clock: Clock,
        observer: ChargeObserver = NO_OBSERVER,
    ) -> None:
        """Store charges in this database, and pay them through this queue."""
        self._database = database
        self._posting_queue = posting_queue
        self._clock = clock
        self._observer = observer
        self._creations = SharedWrites(database, transitions.create_charges)
        self._charges = SharedReads(database, ChargeReader().read)
        self._search = ChargeSearch(database)
        # Thousands may wait for a charge. When it expires, one transaction locks it and writes this
        # for all. Those who repeat the request that created the charge share it: see `create`.
        self._locks = SharedCalls[str](lambda charge_id: self._lock_and_expire([charge_id]))
        self._cancel_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.notifier = ChargeNotifier(database, clock)
        # Anyone can open a checkout page, so visitors have a limit of their own: they cannot use up
        # the limit of partners.
        self.visitor_waits = ConcurrencyLimit(
            total_max=VISITOR_WAITS_MAX, holder_max=WAITS_PER_ADDRESS_MAX
        )

    async def create(
        self, account_id: str, app_id: str, terms: ChargeTerms, idempotency_key: str | None
    ) -> CreatedCharge:
        """Create a charge; if the key was used before, return its charge as it is now."""
        if self._creations.waiting_count >= self._posting_queue.queue_limit:
            raise QueueFull("Too many charges are waiting to be written.", retry_after_seconds=1)
        charge = transitions.new_charge(
            account_id,
            app_id,
            terms,
            idempotency_key,
            self._clock,
            names_account=self._database.is_distributed(),
        )
        created = await self._creations.put(charge)
        if isinstance(created, IdempotencyConflict):
            raise created
        if not created.replayed:
            self._observer.charge_created()
            return created
        # A replay must not acknowledge a charge that only the leader has. So lock the charge: the
        # commit waits until a follower has the lock, and with it all that was committed earlier.
        await self._locks.run(created.charge.id)
        current = await self._charges.get(created.charge.id)
        if current is None:  # another leader, which lacks it, has taken over: the key is free again
            raise DatabaseUnavailable("The database has lost this charge.", retry_after_seconds=1)
        return CreatedCharge(current, replayed=True)

    async def own_charge(self, account_id: str, charge_id: str) -> Charge:
        """Return the account's charge with this id, as it is now."""
        charge = await self._stored_charge(charge_id)
        if charge.account_id != account_id:
            raise ChargeNotFound
        return await self._current_charge(charge)

    async def charge_by_id(self, charge_id: str) -> Charge:
        """Return the charge with this id as it is now, whichever account created it."""
        return await self._current_charge(await self._stored_charge(charge_id))

    async def wait_for_outcome(self, account_id: str, charge_id: str, seconds: float) -> Charge:
        """Return the account's charge once it is final, or as it is after this many seconds."""
        time = asyncio.get_running_loop().time
        deadline = time() + seconds
        charge = await self.own_charge(account_id, charge_id)
        while (
            not is_final(charge.status)
            and not self.notifier.stopped
            and (remaining_seconds := deadline - time()) > 0
        ):
            await self.notifier.wait_for_change(charge, remaining_seconds)
            charge = await self.own_charge(account_id, charge_id)
        return charge

    async def list_charges(self, query: ChargeQuery) -> list[Charge]:
        """Return the first charges that match the query, as they are now.

        If there are more than its limit, return one extra charge.
        """
        now = self._clock()
        while True:
            charges = await self._search.find(query, now)
            overdue = [charge.id for charge in charges if is_overdue(charge, now)]
            if not overdue:
                return charges
            now = await self._lock_and_expire(overdue)

    async def cancel(self, account_id: str, charge_id: str) -> Charge:
        """Cancel the account's charge, or raise the refusal."""
        if not is_charge_id(charge_id):
            raise ChargeNotFound
        attempted_at: set[int] = set()

        async def cancel(transaction: Transaction) -> Cancellation:
            return await transitions.cancel_charge(
                transaction, account_id, charge_id, self._clock, attempted_at
            )

        async with self._turn(charge_id):
            cancellation = await self._commit(cancel)
        self._observer.charges_expired(cancellation.expired_count)
        self.notifier.notify(charge_id)
        if cancellation.refusal is not None:
            raise cancellation.refusal
        self._observer.charge_canceled()
        return cancellation.charge

    async def pay(self, charge: Charge, payer_id: str) -> None:
        """Pay the charge from the payer's balance, or raise the refusal."""
        if charge.account_id == payer_id:
            raise OwnCharge
        result = await self._posting_queue.post(payment_posting(charge, payer_id, self._clock))
        self.notifier.notify(charge.id)
        if not isinstance(result.outcome, Movement):
            if is_overdue(charge, self._clock()):  # it expired meanwhile
                self._observer.charges_expired(1)
            raise _payment_refusal(charge.id, result.outcome)
        paid_at = result.outcome.debit.created_at
        self._observer.charge_paid((paid_at - charge.created_at) / MICROS_PER_SECOND)

    @asynccontextmanager
    async def _turn(self, charge_id: str) -> AsyncIterator[None]:
        """Wait until no other request of this process cancels the charge, or for the deadline.

        If another transaction keeps the charge locked, a cancellation holds a connection. However
        many are asked for, the other connections are left to others.
        """
        lock = self._cancel_locks.setdefault(charge_id, asyncio.Lock())
        deadline = current_deadline()
        try:
            async with asyncio.timeout_at(None if deadline == NO_DEADLINE else deadline):
                await lock.acquire()
        except TimeoutError:
            raise deadline_exceeded() from None
        try:
            yield
        finally:
            lock.release()

    async def _stored_charge(self, charge_id: str) -> Charge:
        charge = await self._charges.get(charge_id) if is_charge_id(charge_id) else None
        if charge is None:
            raise ChargeNotFound
        return charge

    async def _current_charge(self, charge: Charge) -> Charge:
        """Return the charge as it is now; if it has expired, write that first."""
        if not is_overdue(charge, self._clock()):
            return charge
        await self._locks.run(charge.id)
        return await self._stored_charge(charge.id)

    async def _lock_and_expire(self, ids: list[str]) -> int:
        """Lock these charges and write which have expired; return the time that decided it."""
        locked = await self._commit(
            lambda transaction: transitions.lock_current_charges(transaction, ids, self._clock)
        )
        self._observer.charges_expired(locked.expired_count)
        return locked.now

    async def _commit(self, work: Work[Result]) -> Result:
        """Commit work that may safely run again if the outcome of the commit is unknown."""
        return await self._database.write(work, resolves_unknown_commit=True)


def _payment_refusal(charge_id: str, outcome: Outcome) -> Refusal:
    match outcome:
        case Refused(refusal=refusal):
            return refusal
        case ChargeClosed(status=None):
            return ChargeNotFound()
        case ChargeClosed(status=str(status)):
            return ChargeNotPayable(charge_id, status)
        case _:
            raise AssertionError(f"a charge payment cannot have the outcome {outcome}")
