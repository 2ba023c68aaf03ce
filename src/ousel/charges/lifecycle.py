"""The life of a charge: when it expires, and what may still happen to it (no I/O here).

A charge is `created`, and ends as `paid`, `canceled` or `expired`; these three are final.
Only `expires_at` decides when a charge expires. The first request that finds that a charge
has expired writes this status before it answers. So two hosts with different clocks, or a payment
that is being written at that time, cannot lead to two outcomes.
"""

from typing import Final

from ousel.charges.refusals import ChargeNotCancelable
from ousel.charges.rules import Charge, Status
from ousel.kernel.clock import MICROS_PER_SECOND

LIFETIME_MICROS: Final = 2 * 3600 * MICROS_PER_SECOND


def expiry_of_new_charge(created_at: int) -> int:
    """Return the `expires_at` of a charge that is created at this time."""
    return created_at + LIFETIME_MICROS


def is_final(status: Status) -> bool:
    """Return whether a charge with this status can no longer be paid, be canceled or expire."""
    return status != "created"


def is_overdue(charge: Charge, now: int) -> bool:
    """Return whether the charge has expired, but its stored status does not say so yet."""
    return not is_final(charge.status) and micros_until_expiry(charge, now) == 0


def status_at(charge: Charge, now: int) -> Status:
    """Return the status of the charge at this time."""
    return "expired" if is_overdue(charge, now) else charge.status


def micros_until_expiry(charge: Charge, now: int) -> int:
    """Return how long it is until `expires_at`; 0 if that has passed."""
    return max(charge.expires_at - now, 0)


def cancel_refusal(charge: Charge, now: int) -> ChargeNotCancelable | None:
    """Return why the charge cannot be canceled at this time, or None if it can."""
    status = status_at(charge, now)
    return ChargeNotCancelable(charge.id, status) if is_final(status) else None


def created_at_of_newest_overdue(now: int) -> int:
    """Return the latest `created_at` of any charge that has expired by this time.

    Lists need it because their indexes are in the order of `created_at`. The schema guarantees
    that `expires_at` is `created_at` plus the lifetime.
    """
    return now - LIFETIME_MICROS
