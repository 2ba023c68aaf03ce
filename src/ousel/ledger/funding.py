"""Funding: money issued from the system account, by the operator alone."""

import msgspec

from ousel.database.port import Database
from ousel.kernel.clock import Clock
from ousel.kernel.ids import new_id
from ousel.ledger.posting import PostingQueue, PostingResult
from ousel.ledger.rules import SYSTEM_ACCOUNT_ID, Account, Movement, Posting, Refused


class FundingResult(msgspec.Struct, frozen=True):
    """Money that was issued, now or under the same key before."""

    transfer_id: str
    replayed: bool


async def fund_account(
    database: Database,
    clock: Clock,
    account: Account,
    amount: int,
    *,
    note: str | None = None,
    idempotency_key: str | None = None,
) -> FundingResult:
    """Issue money to the account where no server's desk is at hand, or raise the refusal."""
    queue = PostingQueue(database, clock, queue_limit=1)
    posted = await issue_money(
        queue, clock, account, amount, note=note, idempotency_key=idempotency_key
    )
    assert not isinstance(posted.outcome, Refused)
    return FundingResult(posted.outcome.debit.transfer_id, not isinstance(posted.outcome, Movement))


async def issue_money(
    queue: PostingQueue,
    clock: Clock,
    account: Account,
    amount: int,
    *,
    note: str | None = None,
    idempotency_key: str | None = None,
) -> PostingResult:
    """Issue money to the account, or raise the refusal."""
    posted = await queue.post(
        Posting(
            transfer_id=new_id("tr_", clock),
            kind="funding",
            debit_account_id=SYSTEM_ACCOUNT_ID,
            credit_identifier=account.account_number,
            amount=amount,
            note=note,
            idempotency_key=idempotency_key,
        )
    )
    if isinstance(posted.outcome, Refused):
        raise posted.outcome.refusal
    return posted
