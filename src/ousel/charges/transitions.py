"""The changes of charges inside a transaction: creation, expiry and cancellation."""

from collections.abc import Collection, Sequence

import msgspec

from ousel.charges import store
from ousel.charges.lifecycle import (
    cancel_refusal,
    expiry_of_new_charge,
    is_overdue,
    status_at,
)
from ousel.charges.refusals import ChargeNotCancelable, ChargeNotFound
from ousel.charges.rules import Charge, ChargeTerms
from ousel.database.port import Transaction
from ousel.kernel.clock import Clock
from ousel.kernel.ids import id_with_owner, new_id
from ousel.ledger.refusals import IdempotencyConflict


class CreatedCharge(msgspec.Struct, frozen=True):
    """A charge that was created just now, or earlier with the same idempotency key."""

    charge: Charge
    replayed: bool


class LockedCharges(msgspec.Struct, frozen=True):
    """Charges that are locked until the transaction ends, by their ids."""

    charges: dict[str, Charge]
    expired_count: int  # how many of them this transaction marks as expired
    now: int  # the time that decided which of them have expired


class Cancellation(msgspec.Struct, frozen=True):
    """The result of an attempt to cancel a charge."""

    charge: Charge  # as it is now
    refusal: ChargeNotCancelable | None
    expired_count: int  # 1 if this transaction marks the charge as expired instead


def new_charge(
    account_id: str,
    app_id: str,
    terms: ChargeTerms,
    idempotency_key: str | None,
    clock: Clock,
    *,
    names_account: bool = False,
) -> Charge:
    """Return a new charge with these terms, which is not stored yet.

    With `names_account`, the charge's id ends with the digits of the account's id.
    """
    now = clock()
    id_ = new_id("ch_", clock)
    return Charge(
        account_id=account_id,
        id=id_with_owner(id_, account_id) if names_account else id_,
        app_id=app_id,
        status="created",
        amount=terms.amount,
        description=terms.description,
        reference=terms.reference,
        success_url=terms.success_url,
        cancel_url=terms.cancel_url,
        idempotency_key=idempotency_key,
        created_at=now,
        expires_at=expiry_of_new_charge(now),
    )


async def create_charges(
    transaction: Transaction, charges: Sequence[Charge]
) -> list[CreatedCharge | IdempotencyConflict]:
    """Write the charges; for each idempotency key used before, return its earlier charge.

    It may be repeated with the same charges if the answer to the commit was lost.
    """
    written = await store.add_charges(transaction, charges)
    rest = [charge for charge in charges if charge.id not in written]
    if rest:
        written |= (await store.charges_by_id(transaction, [charge.id for charge in rest])).keys()
    used_keys = [_key(charge) for charge in rest if charge.id not in written]
    earlier = await store.charges_by_idempotency_key(transaction, used_keys) if used_keys else {}
    return [
        CreatedCharge(charge, replayed=False)
        if charge.id in written
        else _replay_or_conflict(charge, earlier[_key(charge)])
        for charge in charges
    ]


async def lock_current_charges(
    transaction: Transaction, ids: Collection[str], clock: Clock, *, waits: bool = True
) -> LockedCharges:
    """Lock the charges, mark those that have expired, and return all with their current status.

    With `waits`, payments and cancellations that are being written take effect first. Without it,
    charges that other transactions have locked are left out.
    """
    charges, now = await store.lock_charges(transaction, ids, clock, waits=waits)
    expired = [charge for charge in charges if is_overdue(charge, now)]
    if expired:
        await store.write_expiries(transaction, expired)
    by_id = {
        charge.id: msgspec.structs.replace(charge, status=status_at(charge, now))
        for charge in charges
    }
    return LockedCharges(by_id, len(expired), now)


async def cancel_charge(
    transaction: Transaction,
    account_id: str,
    charge_id: str,
    clock: Clock,
    attempted_at: set[int],
) -> Cancellation:
    """Cancel the account's charge if that is still possible, and add the time to `attempted_at`.

    It runs again if the outcome of its commit is unknown. Then it may find that it has already
    canceled the charge.
    """
    locked = await lock_current_charges(transaction, [charge_id], clock)
    charge = locked.charges.get(charge_id)
    if charge is None or charge.account_id != account_id:
        raise ChargeNotFound
    if transaction.follows_unknown_commit and charge.canceled_at in attempted_at:
        return Cancellation(charge, None, 0)
    refusal = cancel_refusal(charge, locked.now)
    if refusal is None:
        attempted_at.add(locked.now)
        await store.write_cancellation(transaction, charge, locked.now)
        charge = msgspec.structs.replace(charge, status="canceled", canceled_at=locked.now)
    return Cancellation(charge, refusal, locked.expired_count)


def _key(charge: Charge) -> store.IdempotencyKey:
    return charge.account_id, charge.idempotency_key


def _replay_or_conflict(charge: Charge, earlier: Charge) -> CreatedCharge | IdempotencyConflict:
    if earlier.terms == charge.terms:
        return CreatedCharge(earlier, replayed=True)
    return IdempotencyConflict(
        f"This idempotency key was used for charge {earlier.id}, which has other terms.",
        param="idempotency_key",
        members={"charge_id": earlier.id},
    )
