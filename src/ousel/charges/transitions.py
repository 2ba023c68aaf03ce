"""What happens to a charge inside a transaction: created, seen, canceled."""

from collections.abc import Collection, Sequence

import msgspec

from ousel.charges import store
from ousel.charges.refusals import ChargeNotFound
from ousel.charges.rules import (
    LIFETIME_MICROS,
    Charge,
    ChargeTerms,
    is_overdue,
    status_at,
)
from ousel.database.port import Transaction
from ousel.kernel.clock import Clock
from ousel.kernel.ids import new_id
from ousel.ledger.refusals import IdempotencyConflict


class CreatedCharge(msgspec.Struct, frozen=True):
    """A charge that was created, now or under the same key before."""

    charge: Charge
    replayed: bool


class LockedCharges(msgspec.Struct, frozen=True):
    """Charges that are locked until the transaction ends, as they are now."""

    charges: dict[str, Charge]
    expired: int  # how many of them nobody had found expired before


def new_charge(
    account_id: str, app_id: str, terms: ChargeTerms, idempotency_key: str | None, clock: Clock
) -> Charge:
    """Return a charge with these terms that begins now."""
    now = clock()
    return Charge(
        account_id=account_id,
        id=new_id("ch_", clock),
        app_id=app_id,
        status="created",
        amount=terms.amount,
        description=terms.description,
        reference=terms.reference,
        success_url=terms.success_url,
        cancel_url=terms.cancel_url,
        idempotency_key=idempotency_key,
        created_at=now,
        expires_at=now + LIFETIME_MICROS,
    )


async def create_charges(
    transaction: Transaction, charges: Sequence[Charge]
) -> dict[Charge, CreatedCharge | IdempotencyConflict]:
    """Write the charges, and find those that their idempotency keys created before.

    It may be repeated with the same charges where a commit's answer was lost.
    """
    written = await store.add_charges(transaction, charges)
    left = [charge for charge in charges if charge.id not in written]
    if left:
        written |= (await store.charges_by_id(transaction, [charge.id for charge in left])).keys()
    used = [_key(charge) for charge in left if charge.id not in written]
    first = await store.charges_by_idempotency_key(transaction, used) if used else {}
    return {
        charge: CreatedCharge(charge, replayed=False)
        if charge.id in written
        else _replay_or_conflict(charge, first[_key(charge)])
        for charge in charges
    }


async def lock_charges(transaction: Transaction, ids: Collection[str], now: int) -> LockedCharges:
    """Lock the charges, write down which have expired, and return them as they are now.

    A payment or cancellation that is just being written is waited for, and comes first.
    """
    charges = await store.lock_charges(transaction, ids)
    expired = [charge for charge in charges if is_overdue(charge, now)]
    if expired:
        await store.write_expiries(transaction, expired)
    by_id = {
        charge.id: msgspec.structs.replace(charge, status=status_at(charge, now))
        for charge in charges
    }
    return LockedCharges(by_id, len(expired))


async def cancel_charge(
    transaction: Transaction, account_id: str, charge_id: str, now: int
) -> LockedCharges:
    """Cancel the charge if it is in created; return it as it was before."""
    before = await lock_charges(transaction, [charge_id], now)
    charge = before.charges.get(charge_id)
    if charge is None or charge.account_id != account_id:
        raise ChargeNotFound
    if charge.status == "created":
        await store.write_cancellation(transaction, charge, now)
    return before


def _key(charge: Charge) -> store.IdempotencyKey:
    return charge.account_id, charge.idempotency_key


def _replay_or_conflict(charge: Charge, first: Charge) -> CreatedCharge | IdempotencyConflict:
    if first.terms == charge.terms:
        return CreatedCharge(first, replayed=True)
    return IdempotencyConflict(
        f"This idempotency key was used for charge {first.id}, whose terms differ.",
        param="idempotency_key",
        members={"charge_id": first.id},
    )
