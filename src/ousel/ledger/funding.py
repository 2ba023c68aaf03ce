"""Funding and redemption: the operator issues money from the system account, and takes it back."""

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


class OperatorTransfer(msgspec.Struct, frozen=True):
    """A transfer of the operator, made now or earlier with the same idempotency key."""

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
) -> OperatorTransfer:
    """Issue money to the account through a queue made for this call, or raise the refusal."""
    posting = _funding(clock, account, amount, note, idempotency_key)
    return await _post_alone(database, clock, posting)


async def redeem_money(
    database: Database,
    clock: Clock,
    account: Account,
    amount: int,
    *,
    note: str | None = None,
    idempotency_key: str | None = None,
) -> OperatorTransfer:
    """Take money of the account out of circulation, or raise the refusal."""
    posting = Posting(
        transfer_id=new_id("tr_", clock),
        kind="redemption",
        debit_account_id=account.id,
        credit_account_id=SYSTEM_ACCOUNT_ID,
        amount=amount,
        note=note,
        idempotency_key=idempotency_key,
    )
    return await _post_alone(database, clock, posting)


async def fund_through(
    queue: PostingQueue,
    clock: Clock,
    account: Account,
    amount: int,
    *,
    note: str | None = None,
    idempotency_key: str | None = None,
) -> PostingResult:
    """Issue money to the account through this queue, or raise the refusal."""
    return await _post(queue, _funding(clock, account, amount, note, idempotency_key))


def _funding(
    clock: Clock, account: Account, amount: int, note: str | None, idempotency_key: str | None
) -> Posting:
    return Posting(
        transfer_id=new_id("tr_", clock),
        kind="funding",
        debit_account_id=SYSTEM_ACCOUNT_ID,
        credit_account_id=account.id,
        amount=amount,
        note=note,
        idempotency_key=idempotency_key,
    )


async def _post_alone(database: Database, clock: Clock, posting: Posting) -> OperatorTransfer:
    """Post through a queue made for this call, with the same deadline as a request."""
    queue = PostingQueue(database, clock, queue_limit=1)

    async def post_in_time() -> PostingResult:
        set_deadline(asyncio.get_running_loop().time() + DEADLINE_SECONDS_MAX)
        return await _post(queue, posting)

    outcome = (await asyncio.create_task(post_in_time())).outcome
    assert isinstance(outcome, Movement | Replay), "it depends on no partner key and no charge"
    return OperatorTransfer(outcome.debit.transfer_id, replayed=isinstance(outcome, Replay))


async def _post(queue: PostingQueue, posting: Posting) -> PostingResult:
    result = await queue.post(posting)
    if isinstance(result.outcome, Refused):
        raise result.outcome.refusal
    return result
