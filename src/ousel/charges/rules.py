"""What a charge may say, and what it is at a moment: pure.

A charge is `created`, and ends as `paid`, `canceled` or `expired`. Expiry is a fact of time. So
that clocks of several hosts, and a payment that is just being written, cannot disagree about
it, whoever sees it first writes it down: no final status is ever followed by another.
"""

import re
from typing import Final, Literal

import msgspec

from ousel.kernel.clock import MICROS_PER_SECOND

Status = Literal["created", "paid", "canceled", "expired"]

LIFETIME_MICROS: Final = 2 * 3600 * MICROS_PER_SECOND
DESCRIPTION_CHARACTERS_MAX: Final = 500
REFERENCE_CHARACTERS_MAX: Final = 200

_ID: Final = re.compile(r"ch_[0-9a-v]{26}", re.ASCII)


class ChargeTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What a partner asks for: two requests with equal terms are the same request."""

    amount: int
    description: str | None = None
    reference: str | None = None
    success_url: str | None = None
    cancel_url: str | None = None


class Payer(msgspec.Struct, frozen=True):
    """Who paid, as the partner may see it."""

    id: str
    username: str
    display_name: str


class Charge(msgspec.Struct, frozen=True, gc=False):
    """A charge as it is written; the fields stand in the order of its row."""

    account_id: str
    id: str
    app_id: str
    status: Status
    amount: int
    description: str | None
    reference: str | None
    success_url: str | None
    cancel_url: str | None
    idempotency_key: str | None
    created_at: int
    expires_at: int
    paid_at: int | None = None
    canceled_at: int | None = None
    paid_by: str | None = None
    transfer_id: str | None = None
    payer: Payer | None = None

    @property
    def terms(self) -> ChargeTerms:
        """What the partner asked for."""
        return ChargeTerms(
            amount=self.amount,
            description=self.description,
            reference=self.reference,
            success_url=self.success_url,
            cancel_url=self.cancel_url,
        )


def is_charge_id(text: str) -> bool:
    """Say whether the text is written like a charge's id."""
    return _ID.fullmatch(text) is not None


def is_overdue(charge: Charge, now: int) -> bool:
    """Say whether the charge has expired by this moment, and nobody has written it down."""
    return charge.status == "created" and now >= charge.expires_at


def status_at(charge: Charge, now: int) -> Status:
    """Return what the charge is at this moment."""
    return "expired" if is_overdue(charge, now) else charge.status
