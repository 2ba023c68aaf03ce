"""A transfer in the terms of the ledger: one posting, from the key owner to the recipient."""

from ousel.accounts.rules import normalize_identifier
from ousel.kernel.clock import Clock
from ousel.kernel.ids import new_id
from ousel.ledger.rules import KeyCheck, Posting


def transfer_posting(
    sender: KeyCheck,
    to: str,
    amount: int,
    note: str | None,
    idempotency_key: str | None,
    clock: Clock,
) -> Posting:
    """Return the posting that sends this amount, or refuse a malformed recipient."""
    return Posting(
        transfer_id=new_id("tr_", clock),
        kind="transfer",
        debit_account_id=sender.account_id,
        credit_identifier=normalize_identifier(to, param="to"),
        amount=amount,
        note=note,
        idempotency_key=idempotency_key,
        key_check=sender,
    )
