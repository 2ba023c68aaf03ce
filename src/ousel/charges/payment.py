"""Payment: the money and the charge's new status are written together, or neither is."""

from collections.abc import Collection, Sequence

from ousel.charges import store, transitions
from ousel.charges.lifecycle import is_final
from ousel.charges.rules import Charge
from ousel.database.port import Transaction
from ousel.kernel.clock import Clock
from ousel.kernel.ids import new_id
from ousel.ledger.interfaces import ChargeLocks
from ousel.ledger.rules import ClosedCharges, Movement, Posting


class ChargePayments:
    """The charge rows that the ledger locks and writes in the transaction of a payment."""

    async def wait(self, transaction: Transaction, charge_id: str) -> None:
        """Lock one charge; wait until no other transaction has locked it."""
        await store.wait_for_charge(transaction, charge_id)

    async def lock(
        self, transaction: Transaction, charge_ids: Collection[str], clock: Clock, *, waits: bool
    ) -> ChargeLocks:
        """Lock the charges; with `waits`, wait for those that are locked, else leave them out."""
        locked = await transitions.lock_current_charges(transaction, charge_ids, clock, waits=waits)
        missing = set(charge_ids) - locked.charges.keys()
        blocked = await store.existing_charges(transaction, missing) if missing else set()
        closed: ClosedCharges = dict.fromkeys(missing - blocked)
        for charge in locked.charges.values():
            if is_final(charge.status):
                closed[charge.id] = charge.status
        return ChargeLocks(locked.now if locked.charges else None, closed, blocked)

    async def mark_paid(
        self, transaction: Transaction, payments: Sequence[Movement], now: int
    ) -> None:
        """Write that the charges of these movements are paid."""
        await store.write_payments(transaction, payments, now)


def payment_posting(charge: Charge, payer_id: str, clock: Clock) -> Posting:
    """Return the posting that pays the charge."""
    return Posting(
        transfer_id=new_id("tr_", clock),
        kind="charge_payment",
        debit_account_id=payer_id,
        credit_account_id=charge.account_id,
        amount=charge.amount,
        note=charge.description,
        charge_id=charge.id,
    )
