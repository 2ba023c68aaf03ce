"""The transfer record: one movement as one of its two accounts sees it."""

from typing import Annotated, Literal

import msgspec

from ousel.api.fields import Currency, Money, Time, money_field
from ousel.kernel.clock import timestamp
from ousel.kernel.money import CURRENCY
from ousel.ledger.rules import Account, Entry, Kind


class Party(msgspec.Struct, frozen=True, gc=False):
    """An account as the other side of a transfer sees it."""

    id: str
    username: str
    account_number: str
    display_name: str


class TransferRecord(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A completed transfer, as seen from the caller's account."""

    object: Literal["transfer"] = "transfer"
    id: str
    status: Literal["completed"] = "completed"
    kind: Kind
    direction: Literal["out", "in"]
    amount: Money
    currency: Currency = CURRENCY
    from_: Party = msgspec.field(name="from")
    to: Party
    note: str | None
    charge_id: Annotated[
        str | None, msgspec.Meta(description="Null unless kind is charge_payment.")
    ]
    sequence: Annotated[
        int,
        msgspec.Meta(ge=1, description="The number of the transfer in your own account: 1, 2, 3 …"),
    ]
    balance_after: Annotated[Money, msgspec.Meta(description="Your balance after the transfer.")]
    idempotency_key: Annotated[str | None, msgspec.Meta(description="Shown only to the sender.")]
    created_at: Time


def transfer_record(entry: Entry, own: Account, counterparty: Account) -> TransferRecord:
    """Return the record of a movement as the owner of this entry sees it."""
    outgoing = entry.amount < 0
    reader, other = _party(own), _party(counterparty)
    return TransferRecord(
        id=entry.transfer_id,
        kind=entry.kind,
        direction="out" if outgoing else "in",
        amount=money_field(abs(entry.amount)),
        from_=reader if outgoing else other,
        to=other if outgoing else reader,
        note=entry.note,
        charge_id=entry.charge_id,
        sequence=entry.sequence,
        balance_after=money_field(entry.balance_after),
        idempotency_key=entry.idempotency_key,
        created_at=timestamp(entry.created_at),
    )


def _party(account: Account) -> Party:
    return Party(account.id, account.username, account.account_number, account.display_name)
