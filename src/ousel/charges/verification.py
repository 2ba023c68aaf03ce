"""Proof that charges and money agree: each paid charge has its one payment, and no other is there.

The journal's own proof has shown that every movement has both its sides; so the side that
credits the partner is compared, by running sums that keep nothing of what fits.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ousel.charges import store
from ousel.charges.store import PaidCharge
from ousel.database.port import Transaction
from ousel.ledger.rules import Entry
from ousel.ledger.verify import DatabaseLedger, VerificationFailed, describe_entry

PAGE_CHARGES: Final = 5_000
SUMS: Final = 1_024  # so many sums tell roughly which charges do not fit


class ChargeVerifier:
    """Sees the journal go by, and then compares it with the charges of the same snapshot."""

    def __init__(self, transaction: Transaction) -> None:
        """Read the charges in this transaction."""
        self._transaction = transaction
        self._sums = [0] * SUMS  # grow with each payment, shrink by the same with its charge

    def add_entries(self, entries: Iterable[Entry]) -> None:
        """Count the payments among these entries."""
        for entry in entries:
            if _is_payment(entry):
                mark = _mark_of_payment(entry)
                self._sums[mark % SUMS] += mark

    async def finish(self) -> int:
        """Return how many charges are paid, or raise the first that does not fit its payment."""
        count, after = 0, ("", "")
        while page := await store.paid_charges_after(self._transaction, after, PAGE_CHARGES):
            for charge in page:
                mark = _mark_of_charge(charge)
                self._sums[mark % SUMS] -= mark
            count += len(page)
            after = (page[-1].account_id, page[-1].id)
        if any(self._sums):
            raise VerificationFailed(await self._unfitting())
        return count

    async def _unfitting(self) -> str:
        """Name a charge and its payments that do not fit each other."""
        payments: dict[str, list[Entry]] = {}
        async for entries in DatabaseLedger(self._transaction).entries():
            for entry in entries:
                if _is_payment(entry) and self._sums[_mark_of_payment(entry) % SUMS]:
                    payments.setdefault(entry.charge_id or "", []).append(entry)
        after = ("", "")
        while page := await store.paid_charges_after(self._transaction, after, PAGE_CHARGES):
            for charge in page:
                if self._sums[_mark_of_charge(charge) % SUMS]:
                    wrong = _why_unfitting(charge, payments.pop(charge.id, []))
                    if wrong is not None:
                        return wrong
            after = (page[-1].account_id, page[-1].id)
        return await self._extra(each for several in payments.values() for each in several)

    async def _extra(self, payments: Iterable[Entry]) -> str:
        """Name the first of these payments, which no paid charge has."""
        entry = min(payments, key=lambda each: (each.created_at, each.transfer_id))
        if entry.charge_id is None:
            return f"{describe_entry(entry)} is a payment of no charge"
        found = await store.charges_by_id(self._transaction, [entry.charge_id])
        charge = found.get(entry.charge_id)
        if charge is None:
            fate = "does not exist"
        elif charge.status == "paid":
            fate = f"was paid by transfer {charge.transfer_id}"
        else:
            fate = f"is {charge.status}"
        return f"{describe_entry(entry)} pays charge {entry.charge_id}, which {fate}"


def _is_payment(entry: Entry) -> bool:
    of_charge = entry.kind == "charge_payment" or entry.charge_id is not None
    return of_charge and entry.amount > 0


def _mark_of_payment(entry: Entry) -> int:
    return hash(
        (
            entry.kind,
            entry.charge_id,
            entry.account_id,
            entry.counterparty_id,
            entry.amount,
            entry.transfer_id,
        )
    )


def _mark_of_charge(charge: PaidCharge) -> int:
    """Return the mark that the one payment of this charge has."""
    return hash(
        (
            "charge_payment",
            charge.id,
            charge.account_id,
            charge.paid_by,
            charge.amount,
            charge.transfer_id,
        )
    )


def _why_unfitting(charge: PaidCharge, payments: Sequence[Entry]) -> str | None:
    name = f"charge {charge.id} of account {charge.account_id}"
    if not payments:
        return f"{name} is paid, but no entry of the account pays it"
    if len(payments) > 1:
        numbers = " and ".join(str(entry.sequence) for entry in payments)
        return f"{name} is paid more than once: by the entries {numbers}"
    entry = payments[0]
    for what, wanted, found in (
        ("the kind", "charge_payment", entry.kind),
        ("the account", charge.account_id, entry.account_id),
        ("the payer", charge.paid_by, entry.counterparty_id),
        ("the amount", charge.amount, entry.amount),
        ("the transfer", charge.transfer_id, entry.transfer_id),
    ):
        if wanted != found:
            return f"{name} is paid with {what} {wanted}, but {describe_entry(entry)} has {found}"
    return None
