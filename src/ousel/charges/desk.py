"""The desk where charges are created, read, awaited, canceled and paid: one for the process."""

import asyncio

from ousel.accounts import service as accounts
from ousel.charges import service, store
from ousel.charges.payment import ChargesPayable, payment_of
from ousel.charges.reading import ChargeReader
from ousel.charges.refusals import ChargeNotCancelable, ChargeNotFound, OwnCharge
from ousel.charges.rules import Charge, Status, Terms, expiry_unwritten, is_charge_id
from ousel.charges.service import Created
from ousel.charges.store import PageQuery
from ousel.charges.watch import ChargeWatch
from ousel.database.port import Database, Result, Transaction, Work, settled
from ousel.database.sharing import SharedReads, SharedWrites
from ousel.kernel.clock import MICROS_PER_SECOND, Clock
from ousel.kernel.observation import UNOBSERVED, ChargeObserver
from ousel.ledger.posting import PostingDesk
from ousel.ledger.refusals import IdempotencyConflict, QueueFull
from ousel.ledger.rules import Refused


class ChargeDesk:
    """Opens the transactions in which charges live; what it returns is true, and final stays."""

    def __init__(
        self,
        database: Database,
        posting_desk: PostingDesk,
        clock: Clock,
        observer: ChargeObserver = UNOBSERVED,
    ) -> None:
        """Keep charges in this database, and post payments at this desk."""
        self._database = database
        self._posting_desk = posting_desk
        self._clock = clock
        self._observer = observer
        self._payable = ChargesPayable()
        self._creations = SharedWrites(self._written, service.create)
        self._charges = SharedReads(database, ChargeReader().read)
        self._recipients = SharedReads(database, accounts.by_ids)
        self.watch = ChargeWatch(database, clock)

    async def create(
        self, account_id: str, app_id: str, terms: Terms, idempotency_key: str | None
    ) -> Created:
        """Create a charge; a used key returns the charge that it created before, as it is now."""
        if self._creations.waiting >= self._posting_desk.queue_limit:
            raise QueueFull("Too many charges are waiting to be written.", retry_after_seconds=1)
        charge = service.new_charge(account_id, app_id, terms, idempotency_key, self._clock)
        created = await self._creations.put(charge)
        if isinstance(created, IdempotencyConflict):
            raise created
        if not created.replayed:
            self._observer.charge_created()
            return created
        return Created(await self._settled(created.charge), replayed=True)

    async def own(self, account_id: str, charge_id: str) -> Charge:
        """Return the account's charge with this id, as it is now."""
        charge = await self._as_written(charge_id)
        if charge.account_id != account_id:
            raise ChargeNotFound
        return await self._settled(charge)

    async def of_anyone(self, charge_id: str) -> Charge:
        """Return the charge with this id, whoever created it, as it is now."""
        return await self._settled(await self._as_written(charge_id))

    async def awaited(self, account_id: str, charge_id: str, seconds: float) -> Charge:
        """Return the account's charge when it is final, or after so many seconds as it is."""
        time = asyncio.get_running_loop().time
        deadline = time() + seconds
        charge = await self.own(account_id, charge_id)
        while (
            charge.status == "created"
            and not self.watch.stopped
            and (left_seconds := deadline - time()) > 0
        ):
            await self.watch.change(charge, left_seconds)
            charge = await self.own(account_id, charge_id)
        return charge

    async def page(self, query: PageQuery) -> list[Charge]:
        """Return the newest charges that fit, one more than the limit, as they are now."""
        now = self._clock()

        async def read(transaction: Transaction) -> list[Charge]:
            return await store.page(transaction, query, now)

        while True:
            charges = await self._database.read(read)
            expired = [charge.id for charge in charges if expiry_unwritten(charge, now)]
            if not expired:
                return charges
            await self._write_expiries(expired, now)

    async def cancel(self, account_id: str, charge_id: str) -> Charge:
        """Cancel the account's charge, or raise the refusal."""
        if not is_charge_id(charge_id):
            raise ChargeNotFound
        now = self._clock()
        tried = False

        async def cancel(transaction: Transaction) -> tuple[Status, int]:
            nonlocal tried
            locked = await service.cancel(transaction, account_id, charge_id, now)
            before = locked.charges[charge_id]
            own_doing = tried and before.canceled_at == now  # by a commit whose answer was lost
            tried = True
            return "created" if own_doing else before.status, locked.expired

        status, expired = await self._written(cancel)
        self._observer.charges_expired(expired)
        self.watch.wake(charge_id)
        if status != "created":
            raise ChargeNotCancelable(charge_id, status)
        self._observer.charge_canceled()
        return await self.own(account_id, charge_id)

    async def pay(self, charge: Charge, payer_id: str) -> None:
        """Pay the charge from the payer's balance, or raise the refusal."""
        if charge.account_id == payer_id:
            raise OwnCharge
        recipient = await self._recipients.get(charge.account_id)
        posting = payment_of(charge, payer_id, recipient, self._clock)
        posted = await self._posting_desk.post(posting, self._payable)
        self.watch.wake(charge.id)
        if isinstance(posted.outcome, Refused):
            if expiry_unwritten(charge, self._clock()):  # it expired on the way
                self._observer.charges_expired(1)
            raise posted.outcome.refusal
        paid_at = posted.outcome.debit.created_at
        self._observer.charge_paid((paid_at - charge.created_at) / MICROS_PER_SECOND)

    async def _as_written(self, charge_id: str) -> Charge:
        charge = await self._charges.get(charge_id) if is_charge_id(charge_id) else None
        if charge is None:
            raise ChargeNotFound
        return charge

    async def _settled(self, charge: Charge) -> Charge:
        """Return the charge with its expiry, if it has come, written down before it is told."""
        now = self._clock()
        if not expiry_unwritten(charge, now):
            return charge
        await self._write_expiries([charge.id], now)
        return await self._as_written(charge.id)

    async def _write_expiries(self, ids: list[str], now: int) -> None:
        locked = await self._written(lambda transaction: service.locked(transaction, ids, now))
        self._observer.charges_expired(locked.expired)

    async def _written(self, work: Work[Result]) -> Result:
        """Commit work that may be repeated: that settles an outcome that is unknown."""
        return await settled(lambda _: self._database.write(work))
