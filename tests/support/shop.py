"""A shop for tests: a partner that creates charges, a payer with money, and the charge service."""

from typing import Any

import msgspec

from ousel.charges.payment import ChargePayments
from ousel.charges.rules import Charge, ChargeTerms
from ousel.charges.service import ChargeService
from ousel.charges.transitions import create_charges, new_charge
from ousel.database.change_notifier import ChangeNotifier
from ousel.database.port import Database
from ousel.kernel.clock import Clock
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import Account
from ousel.partners.rules import App
from tests.support.accounts import balance, partner, person, unique_name
from tests.support.clock import ManualClock
from tests.support.raw_sql import RawSql
from tests.support.waiting import until

AMOUNT = 2_500_000


class Shop(msgspec.Struct):
    """A partner with its key, a payer, and the service that both use."""

    database: Database
    clock: Any
    posting_queue: PostingQueue
    charges: ChargeService
    merchant: Account
    app: App
    key: str
    payer: Account

    async def charge(self, amount: int = AMOUNT, **terms: Any) -> Charge:
        """Create a charge."""
        charge_terms = ChargeTerms(amount=amount, **terms)
        return (await self.charges.create(self.merchant.id, self.app.id, charge_terms, None)).charge

    async def many_charges(
        self, count: int, amount: int = AMOUNT, step_micros: int = 1
    ) -> list[Charge]:
        """Create many charges in one transaction, each one step later than the one before."""
        terms = ChargeTerms(amount=amount)
        start = self.clock()
        new = [
            new_charge(self.merchant.id, self.app.id, terms, None, ManualClock(created_at))
            for created_at in range(start, start + count * step_micros, step_micros)
        ]

        await self.database.write(lambda transaction: create_charges(transaction, new))
        return new

    async def pay(self, charge: Charge) -> Charge:
        """Pay a charge as the payer, and return the paid charge."""
        await self.charges.pay(charge, self.payer.id)
        return await self.charges.own_charge(charge.account_id, charge.id)

    async def status(self, charge: Charge) -> str:
        """Return the status of the charge now."""
        return (await self.charges.own_charge(self.merchant.id, charge.id)).status

    async def balances(self) -> tuple[int, int]:
        """Return the balances of the merchant and the payer."""
        return (
            await balance(self.database, self.merchant),
            await balance(self.database, self.payer),
        )


async def open_shop(database: Database, clock: Clock, *, kind: str = "live") -> Shop:
    """Open a shop whose payer has 100.00."""
    merchant, app, key = await partner(database, unique_name("shop"), kind=kind)
    payer = await person(database, unique_name("payer"), "100")
    queue, charges = _services(database, clock)
    return Shop(database, clock, queue, charges, merchant, app, key, payer)


def in_another_process(shop: Shop, clock: Clock) -> Shop:
    """Return the same shop as seen by another process, which has its own clock."""
    queue, charges = _services(shop.database, clock)
    return msgspec.structs.replace(shop, clock=clock, posting_queue=queue, charges=charges)


def _services(database: Database, clock: Clock) -> tuple[PostingQueue, ChargeService]:
    queue = PostingQueue(database, clock, queue_limit=1_000, charge_rows=ChargePayments())
    return queue, ChargeService(database, queue, clock)


async def count_proven_payments(database_url: str) -> int:
    """Check that each paid charge has exactly one payment and vice versa; return how many."""
    async with RawSql(database_url) as raw_sql:
        charges = await raw_sql.run(
            "SELECT id, account_id, transfer_id, amount, paid_by FROM charges"
            " WHERE status = 'paid' ORDER BY id"
        )
        payments = await raw_sql.run(
            "SELECT charge_id, account_id, transfer_id, amount, counterparty_id FROM entries"
            " WHERE kind = 'charge_payment' AND amount > 0 ORDER BY charge_id"
        )
    assert charges == payments
    return len(charges)


async def until_waiters(notifier: ChangeNotifier, count: int) -> None:
    """Wait until exactly this many requests wait for charges."""
    await until(lambda: notifier.waiter_count == count)
