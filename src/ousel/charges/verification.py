"""Proof that charges and payments agree: each paid charge has exactly one payment, and vice versa.

The verification of the journal has already shown that every movement has both entries. So it is
enough to compare each charge with the entry that credits the partner.
"""

from collections.abc import AsyncIterator, Hashable, Iterable, Sequence
from typing import Final

from ousel.charges import store
from ousel.charges.store import PaidCharge
from ousel.database.port import Transaction
from ousel.ledger.bucket_sums import BucketSums
from ousel.ledger.rules import Entry
from ousel.ledger.verify import DatabaseLedger, VerificationFailed, describe_entry

PAGE_CHARGES: Final = 5_000


class ChargeVerifier:
    """Collects the payments of the journal, then compares them with the charges in the snapshot."""

    def __init__(self, transaction: Transaction) -> None:
        """Read the charges in this transaction."""
        self._transaction = transaction
        self._payments = BucketSums()  # payments are added, paid charges subtracted

    def add_entries(self, entries: Iterable[Entry]) -> None:
        """Add the payments among these entries."""
        for entry in entries:
            if _is_payment(entry):
                self._payments.add(_payment_fields(entry))

    async def finish(self) -> int:
        """Return how many charges are paid, or raise an error for the first that does not match."""
        count = 0
        async for charge in self._paid_charges():
            self._payments.subtract(_expected_payment_fields(charge))
            count += 1
        if not self._payments.is_balanced:
            raise VerificationFailed(await self._describe_first_mismatch())
        return count

    async def _paid_charges(self) -> AsyncIterator[PaidCharge]:
        after = ("", "")
        while page := await store.paid_charges_after(self._transaction, after, PAGE_CHARGES):
            for charge in page:
                yield charge
            after = (page[-1].account_id, page[-1].id)

    async def _describe_first_mismatch(self) -> str:
        payments: dict[str, list[Entry]] = {}
        async for entries in DatabaseLedger(self._transaction).entries():
            for entry in entries:
                if _is_payment(entry) and self._payments.may_mismatch(_payment_fields(entry)):
                    payments.setdefault(entry.charge_id or "", []).append(entry)
        async for charge in self._paid_charges():
            expected = _expected_payment_fields(charge)
            if self._payments.may_mismatch(expected):
                found = payments.get(charge.id, [])
                matching = next((each for each in found if _payment_fields(each) == expected), None)
                if matching is None:
                    return _describe_mismatch(charge, found)
                found.remove(matching)
        return await self._describe_unmatched(
            entry for entries in payments.values() for entry in entries
        )

    async def _describe_unmatched(self, payments: Iterable[Entry]) -> str:
        """Name the first of these payments, which match no paid charge."""
        entry = min(payments, key=lambda each: (each.created_at, each.transfer_id))
        if entry.charge_id is None:
            return f"{describe_entry(entry)} is a charge payment, but names no charge"
        found = await store.charges_by_id(self._transaction, [entry.charge_id])
        charge = found.get(entry.charge_id)
        if charge is None:
            finding = "does not exist"
        elif charge.status == "paid":
            finding = f"was paid by transfer {charge.transfer_id}"
        else:
            finding = f"is {charge.status}"
        return f"{describe_entry(entry)} pays charge {entry.charge_id}, which {finding}"


def _is_payment(entry: Entry) -> bool:
    of_charge = entry.kind == "charge_payment" or entry.charge_id is not None
    return of_charge and entry.amount > 0


def _payment_fields(entry: Entry) -> Hashable:
    return (
        entry.kind,
        entry.charge_id,
        entry.account_id,
        entry.counterparty_id,
        entry.amount,
        entry.transfer_id,
    )


def _expected_payment_fields(charge: PaidCharge) -> Hashable:
    """Return the fields that the one payment of this charge must have."""
    return (
        "charge_payment",
        charge.id,
        charge.account_id,
        charge.paid_by,
        charge.amount,
        charge.transfer_id,
    )


def _describe_mismatch(charge: PaidCharge, payments: Sequence[Entry]) -> str:
    """Return how the payments differ from the one that the charge names."""
    name = f"charge {charge.id} of account {charge.account_id}"
    if not payments:
        return f"{name} is paid, but no entry of the account pays it"
    if len(payments) > 1:
        numbers = " and ".join(str(entry.sequence) for entry in payments)
        return f"{name} is paid more than once: by the entries {numbers}"
    entry = payments[0]
    for field, expected, found in (
        ("the kind", "charge_payment", entry.kind),
        ("the account", charge.account_id, entry.account_id),
        ("the payer", charge.paid_by, entry.counterparty_id),
        ("the amount", charge.amount, entry.amount),
        ("the transfer", charge.transfer_id, entry.transfer_id),
    ):
        if expected != found:
            return (
                f"the payment of {name} must have {field} {expected}, "
                f"but {describe_entry(entry)} has {found}"
            )
    raise AssertionError("this is the payment that the charge names")
