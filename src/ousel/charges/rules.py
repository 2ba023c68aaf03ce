"""What a charge consists of, and its limits (no I/O here)."""

import re
from typing import Final, Literal

import msgspec

Status = Literal["created", "paid", "canceled", "expired"]

DESCRIPTION_CHARACTERS_MAX: Final = 500
REFERENCE_CHARACTERS_MAX: Final = 200

# If the database is distributed, the digits of the account's id follow those of the charge.
ID_PATTERN: Final = r"ch_(?:[0-9a-v]{26}){1,2}"

_ID: Final = re.compile(ID_PATTERN, re.ASCII)


class ChargeTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What a partner asks for; a retry must have the same terms and the same idempotency key."""

    amount: int
    description: str | None = None
    reference: str | None = None
    success_url: str | None = None
    cancel_url: str | None = None


class Payer(msgspec.Struct, frozen=True):
    """What the partner may know about who paid."""

    id: str
    username: str
    display_name: str


class Charge(msgspec.Struct, frozen=True, gc=False):
    """A charge as it is stored; the fields are in the order of the table's columns."""

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
        """Return what the partner asked for."""
        return ChargeTerms(
            amount=self.amount,
            description=self.description,
            reference=self.reference,
            success_url=self.success_url,
            cancel_url=self.cancel_url,
        )


class ChargeQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which of an account's charges to list."""

    account_id: str
    limit: int
    oldest_first: bool = False
    position: tuple[int, str] | None = None  # time and id of the previous page's last charge
    status: Status | None = None
    status_changed_after: int | None = None
    reference: str | None = None
    app_id: str | None = None  # None lists the charges of all apps


def is_charge_id(text: str) -> bool:
    """Return whether the text has the form of a charge's id."""
    return _ID.fullmatch(text) is not None
