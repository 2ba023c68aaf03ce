"""Funding: the operator issues money from the system account."""

import asyncio

import msgspec

from ousel.database.port import Database
from ousel.kernel.clock import Clock
from ousel.kernel.deadlines import set_deadline
from ousel.kernel.ids import new_id
from ousel.kernel.settings import DEADLINE_SECONDS_MAX
from ousel.ledger.batch import PostingResult
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import SYSTEM_ACCOUNT_ID, Account, Movement, Posting, Refused, Replay


class FundingResult(msgspec.Struct, frozen=True):
    """The transfer that issued the money, now or earlier with the same idempotency key."""

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
    """Issue money to the account through a queue made for this call, or raise the refusal."""
    queue = PostingQueue(database, clock, queue_limit=1)

    async def issue_in_time() -> PostingResult:
        set_deadline(asyncio.get_running_loop().time() + DEADLINE_SECONDS_MAX)
        return await issue_money(
            queue, clock, account, amount, note=note, idempotency_key=idempotency_key
        )

    outcome = (await asyncio.create_task(issue_in_time())).outcome
    assert isinstance(outcome, Movement | Replay), "funding depends on no partner key and no charge"
    return FundingResult(outcome.debit.transfer_id, replayed=isinstance(outcome, Replay))


async def issue_money(
    queue: PostingQueue,
    clock: Clock,
    account: Account,
    amount: int,
    *,
    note: str | None = None,
    idempotency_key: str | None = None,
) -> PostingResult:
    """Issue money to the account through this queue, or raise the refusal."""
    result = await queue.post(
        Posting(
            transfer_id=new_id("tr_", clock),
            kind="funding",
            debit_account_id=SYSTEM_ACCOUNT_ID,
            credit_account_id=account.id,
            amount=amount,
            note=note,
            idempotency_key=idempotency_key,
        )
    )
    if isinstance(result.outcome, Refused):
        raise result.outcome.refusal
    return result
