"""Payment: the money and the charge's new status are written together, or neither is."""

from collections.abc import Sequence
from functools import partial

from ousel.charges import store, transitions
from ousel.charges.refusals import ChargeNotFound, ChargeNotPayable
from ousel.charges.rules import Charge
from ousel.database.port import Transaction
from ousel.kernel.clock import Clock
from ousel.kernel.ids import new_id
from ousel.ledger.rules import Account, Claim, Closed, Movement, Posting


class ChargePayments:
    """The condition of every payment: its charge is still in created, and becomes paid."""

    async def admit(
        self, transaction: Transaction, postings: Sequence[Posting], now: int
    ) -> Closed:
        """Lock the charges; those that are final can be paid no more."""
        ids = {posting.charge_id for posting in postings if posting.charge_id is not None}
        charges = (await transitions.lock_charges(transaction, ids, now)).charges
        closed: Closed = {
            charge.id: partial(ChargeNotPayable, charge.id, charge.status)
            for charge in charges.values()
            if charge.status != "created"
        }
        return closed | dict.fromkeys(ids - set(charges), ChargeNotFound)

    async def settle(self, transaction: Transaction, moved: Sequence[Movement], now: int) -> None:
        """Write that the charges of these movements are paid."""
        await store.write_payments(
            transaction,
            [
                (
                    each.credit.charge_id,
                    "paid",
                    now,
                    each.debit.account_id,
                    each.debit.transfer_id,
                )
                for each in moved
            ],
        )


def payment_posting(charge: Charge, payer_id: str, recipient: Account, clock: Clock) -> Posting:
    """Return what paying the charge means in money."""
    return Posting(
        transfer_id=new_id("tr_", clock),
        kind="charge_payment",
        debit_account_id=payer_id,
        credit_identifier=recipient.account_number,
        amount=charge.amount,
        note=charge.description,
        charge_id=charge.id,
        claim=Claim(charge.id, partial(ChargeNotPayable, charge.id, "paid")),
    )
