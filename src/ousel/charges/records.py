"""The charge record, as the API shows it to the partner that created the charge."""

import re
from typing import Annotated, Final, Literal

import msgspec

from ousel.api.fields import Currency, Money, Time, money_field
from ousel.api.paging import invalid_cursor, text_from_cursor
from ousel.charges.rules import ID_PATTERN, Charge, Status
from ousel.kernel.clock import timestamp
from ousel.kernel.money import CURRENCY

_POSITION: Final = re.compile(rf"([0-9]{{1,18}}):({ID_PATTERN})", re.ASCII)


class PayerRecord(msgspec.Struct, frozen=True, gc=False):
    """Who paid."""

    id: str
    username: Annotated[str, msgspec.Meta(description="Without the @.")]
    display_name: str


class ChargeRecord(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An amount that a partner asks for, and whether it was paid."""

    object: Literal["charge"] = "charge"
    id: str
    status: Annotated[
        Status, msgspec.Meta(description="Every status except created is final and never changes.")
    ]
    amount: Money
    currency: Currency = CURRENCY
    description: str | None
    reference: str | None
    success_url: str | None
    cancel_url: str | None
    checkout_url: Annotated[str, msgspec.Meta(description="Send the payer here.")]
    created_at: Time
    expires_at: Annotated[Time, msgspec.Meta(description="2 hours after creation.")]
    paid_at: Time | None
    canceled_at: Time | None
    paid_by: PayerRecord | None
    transfer_id: Annotated[str | None, msgspec.Meta(description="The transfer that paid it.")]


def charge_record(charge: Charge, portal_url: str) -> ChargeRecord:
    """Return the record of a charge."""
    payer = charge.payer
    return ChargeRecord(
        id=charge.id,
        status=charge.status,
        amount=money_field(charge.amount),
        description=charge.description,
        reference=charge.reference,
        success_url=charge.success_url,
        cancel_url=charge.cancel_url,
        checkout_url=f"{portal_url}/pay/{charge.id}",
        created_at=timestamp(charge.created_at),
        expires_at=timestamp(charge.expires_at),
        paid_at=None if charge.paid_at is None else timestamp(charge.paid_at),
        canceled_at=None if charge.canceled_at is None else timestamp(charge.canceled_at),
        paid_by=None
        if payer is None
        else PayerRecord(payer.id, payer.username, payer.display_name),
        transfer_id=charge.transfer_id,
    )


def position_of_charge(charge: Charge) -> str:
    """Return this charge's position in the list; the next page continues after it."""
    return f"{charge.created_at}:{charge.id}"


def position_after(cursor: str | None) -> tuple[int, str] | None:
    """Return the time and id after which the cursor continues, or refuse a malformed cursor."""
    if cursor is None:
        return None
    position = _POSITION.fullmatch(text_from_cursor(cursor))
    if position is None:
        raise invalid_cursor()
    return int(position[1]), position[2]
