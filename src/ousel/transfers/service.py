"""What a transfer means in money: one posting, from the key owner to the recipient."""

import msgspec

from ousel.accounts.rules import normalized
from ousel.kernel.clock import Clock
from ousel.kernel.ids import new_id
from ousel.ledger.posting import Posted, PostingDesk
from ousel.ledger.rules import Posting, Refused


class TransferWish(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A partner's wish to send money."""

    sender_id: str
    to: str
    amount: int
    note: str | None
    idempotency_key: str | None


async def send(desk: PostingDesk, wish: TransferWish, clock: Clock) -> Posted:
    """Move the money, or raise the refusal; a used key returns what it moved before."""
    posted = await desk.post(
        Posting(
            transfer_id=new_id("tr_", clock),
            kind="transfer",
            debit_account_id=wish.sender_id,
            credit_identifier=normalized(wish.to, param="to"),
            amount=wish.amount,
            note=wish.note,
            idempotency_key=wish.idempotency_key,
        )
    )
    if isinstance(posted.outcome, Refused):
        raise posted.outcome.refusal
    return posted
