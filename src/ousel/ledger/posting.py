"""Posting by group commit: the one door through which a balance changes.

What waits is decided and written together, in the order of arrival: one transaction, one flush
to disk. There is no delay: whoever comes first is written at once, and the next batch is made of
those who came meanwhile.

Under load callers take turns in two halves. While the database writes one half, this process
answers the other and hears what it asks for next; neither waits idly for the other.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final, Protocol

import msgspec

from ousel.database.port import Database, Transaction, settled
from ousel.database.statements import UnstorableValue
from ousel.kernel.clock import Clock
from ousel.kernel.errors import DatabaseUnavailable, OutcomeUnknown
from ousel.kernel.observers import NO_OBSERVER, PostingObserver
from ousel.ledger import journal
from ousel.ledger.refusals import PostingRefused, QueueFull
from ousel.ledger.rules import (
    Account,
    Closed,
    Entry,
    Movement,
    Outcome,
    Posting,
    Refused,
    Replay,
    decide,
)

BATCH_POSTINGS_MAX: Final = 1_000
UNHALVED_POSTINGS_MAX: Final = 16  # so few cost less in one transaction than in two
TELL_SECONDS_MAX: Final = 0.002
RECIPIENTS_REMEMBERED_MAX: Final = 100_000


class Condition(Protocol):
    """What postings depend on beside the books; read and written in their own transaction."""

    async def admit(
        self, transaction: Transaction, postings: Sequence[Posting], now: int
    ) -> Closed:
        """Lock what the postings claim, before any account is locked; return what is closed."""
        ...

    async def settle(self, transaction: Transaction, moved: Sequence[Movement], now: int) -> None:
        """Write what follows from the postings that moved money."""
        ...


class PostingResult(msgspec.Struct, frozen=True):
    """How a posting came out, and the public names of both accounts where money moved."""

    outcome: Outcome
    debit_account: Account | None = None
    credit_account: Account | None = None


class _Waiting(msgspec.Struct, frozen=True):
    posting: Posting
    condition: Condition | None
    answer: "asyncio.Future[PostingResult]"


class PostingQueue:
    """Takes postings from any number of callers and writes them batch by batch."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        queue_limit: int,
        observer: PostingObserver = NO_OBSERVER,
    ) -> None:
        """Write to this database; refuse what would make more than `queue_limit` wait."""
        self._database = database
        self._clock = clock
        self.queue_limit = queue_limit
        self._observer = observer
        self._queue: deque[_Waiting] = deque()
        self._writing: asyncio.Task[None] | None = None
        self._taken = 0  # by the last batch
        self._untold: list[tuple[_Waiting, PostingResult]] = []
        self._recipients: dict[str, str] = {}

    async def post(self, posting: Posting, condition: Condition | None = None) -> PostingResult:
        """Return how the posting came out, once that is on disk; a claim needs its condition."""
        assert (posting.claim is None) == (condition is None)
        if len(self._queue) >= self.queue_limit:
            raise QueueFull("Too many transfers are waiting to be written.", retry_after_seconds=1)
        loop = asyncio.get_running_loop()
        waiting = _Waiting(posting, condition, loop.create_future())
        self._queue.append(waiting)
        if self._writing is None:
            self._writing = loop.create_task(self._write_until_empty())
        return await waiting.answer

    @property
    def queue_length(self) -> int:
        """How many postings wait for the next batch."""
        return len(self._queue)

    async def close(self) -> None:
        """Write what still waits."""
        if self._writing is not None:
            await self._writing

    async def _write_until_empty(self) -> None:
        try:
            while batch := self._next_batch():
                await self._answer(batch)
        finally:
            self._tell()
            self._writing = None

    def _next_batch(self) -> list[_Waiting]:
        """Take those who wait, if they are few; of many take half.

        Those of the last batch count as well: they will soon wait again. A caller that has given
        up by now is passed over whole.
        """
        batch: list[_Waiting] = []
        half = max((len(self._queue) + self._taken + 1) // 2, UNHALVED_POSTINGS_MAX)
        while self._queue and len(batch) < min(half, BATCH_POSTINGS_MAX):
            waiting = self._queue.popleft()
            if not waiting.answer.done():
                batch.append(waiting)
        self._taken = len(batch)
        return batch

    def _tell(self) -> None:
        """Answer the callers whose postings are on disk."""
        untold, self._untold = self._untold, []
        for waiting, posted in untold:
            if not waiting.answer.done():
                waiting.answer.set_result(posted)

    def _tell_soon(self, batch: Sequence[_Waiting], results: Sequence[PostingResult]) -> None:
        """Answer the batch; where others wait, while theirs is being committed, or shortly.

        To answer takes longer than to look and lock, and would keep the database waiting.
        """
        self._tell()
        self._untold = list(zip(batch, results, strict=True))
        if self._queue:
            asyncio.get_running_loop().call_later(TELL_SECONDS_MAX, self._tell)
        else:
            self._tell()

    async def _answer(self, batch: Sequence[_Waiting]) -> None:
        """Write the batch and answer each caller; one bad posting fails alone."""
        started = perf_counter()
        try:
            results = await self._settled(batch)
        except (DatabaseUnavailable, OutcomeUnknown) as error:
            _fail(batch, error)
        except Exception as error:  # noqa: BLE001 - the caller at fault gets it
            await self._answer_apart(batch, error)
        else:
            self._observer.batch_written(len(batch), perf_counter() - started)
            self._tell_soon(batch, results)

    async def _answer_apart(self, batch: Sequence[_Waiting], error: Exception) -> None:
        """Halve a batch that failed until the posting at fault stands alone."""
        if len(batch) > 1:
            middle = len(batch) // 2
            await self._answer(batch[:middle])
            await self._answer(batch[middle:])
        elif isinstance(error, UnstorableValue):
            _fail(batch, PostingRefused("The database cannot hold a value of this transfer."))
        else:
            _fail(batch, error)

    async def _settled(self, waiting: Sequence[_Waiting]) -> list[PostingResult]:
        """Write the postings; where a commit's outcome is unknown, let the journal tell it."""
        if len(self._recipients) > RECIPIENTS_REMEMBERED_MAX:
            self._recipients.clear()
        batch = PostingBatch(waiting, self._recipients, self._clock, before_commit=self._tell)

        async def attempt(doubt: OutcomeUnknown | None) -> list[PostingResult]:
            batch.in_doubt = doubt is not None
            return await self._database.write(batch.write)

        return await settled(attempt)


class PostingBatch:
    """The work of one transaction: look up, lock, decide, write."""

    def __init__(
        self,
        waiting: Sequence[_Waiting],
        recipients: dict[str, str],
        clock: Clock,
        before_commit: Callable[[], None],
    ) -> None:
        """Write these postings; call `before_commit` once they are decided and written."""
        self._before_commit = before_commit
        self._postings = [each.posting for each in waiting]
        self._conditions: dict[Condition, list[Posting]] = {}
        for each in waiting:
            if each.condition is not None:
                self._conditions.setdefault(each.condition, []).append(each.posting)
        self._recipients = recipients  # remembered: an identifier never changes its account
        self._clock = clock
        self._sequences: dict[str, int] = {}  # as the first attempt found them
        self.in_doubt = False  # whether an earlier attempt was committed

    async def write(self, transaction: Transaction) -> list[PostingResult]:
        """Decide the postings on today's books and write what they move."""
        now = self._clock()
        await self._look_up_recipients(transaction)
        closed: Closed = {}
        for condition, postings in self._conditions.items():
            closed |= await condition.admit(transaction, postings, now)
        books = await journal.lock_accounts(transaction, self._account_ids(), self._postings, now)
        accounts = books.accounts
        known = self._unwarranted(books) | await self._settled_before(transaction)
        self._sequences = {each.id: each.sequence for each in accounts.values()} | self._sequences
        fresh = [posting for posting in self._postings if posting.transfer_id not in known]
        outcomes = decide(fresh, accounts, self._recipients, books.known_keys, now, closed)
        moved = [outcome for outcome in outcomes if isinstance(outcome, Movement)]
        if moved:
            await journal.write_movements(transaction, moved, accounts)
        by_transfer = dict(zip((posting.transfer_id for posting in fresh), outcomes, strict=True))
        await self._settle(transaction, by_transfer, now)
        by_transfer |= known
        posted = [
            self._posted(by_transfer[posting.transfer_id], accounts) for posting in self._postings
        ]
        self._before_commit()
        return posted

    async def _settle(
        self, transaction: Transaction, outcomes: dict[str, Outcome], now: int
    ) -> None:
        for condition, postings in self._conditions.items():
            decided = [outcomes.get(posting.transfer_id) for posting in postings]
            moved = [outcome for outcome in decided if isinstance(outcome, Movement)]
            if moved:
                await condition.settle(transaction, moved, now)

    async def _look_up_recipients(self, transaction: Transaction) -> None:
        unknown = {
            posting.credit_identifier
            for posting in self._postings
            if posting.credit_identifier not in self._recipients
        }
        self._recipients |= await journal.find_account_ids(transaction, unknown)

    def _account_ids(self) -> set[str]:
        ids = {posting.debit_account_id for posting in self._postings}
        for posting in self._postings:
            recipient = self._recipients.get(posting.credit_identifier)
            if recipient is not None:
                ids.add(recipient)
        return ids

    def _unwarranted(self, books: journal.LockedLedger) -> dict[str, Outcome]:
        """Return the postings of callers whose keys have ended since they were let in."""
        if not books.revoked_keys:
            return {}
        return {
            posting.transfer_id: Refused(posting.key_check.ended())
            for posting in self._postings
            if posting.key_check is not None
            and (posting.key_check.account_id, posting.key_check.handle) in books.revoked_keys
        }

    async def _settled_before(self, transaction: Transaction) -> dict[str, Outcome]:
        """Return the postings that an earlier attempt wrote, though its commit's answer was lost.

        The accounts are locked by now, so that attempt has ended, one way or the other.
        """
        if not self.in_doubt:
            return {}
        entries = await journal.entries_since(transaction, self._sequences)
        own = {posting.transfer_id for posting in self._postings}
        sides: dict[str, dict[bool, Entry]] = {}
        for entry in entries:
            if entry.transfer_id in own:
                sides.setdefault(entry.transfer_id, {})[entry.amount < 0] = entry
        return {id_: Movement(pair[True], pair[False]) for id_, pair in sides.items()}

    def _posted(self, outcome: Outcome, accounts: dict[str, Account]) -> PostingResult:
        match outcome:
            case Refused():
                return PostingResult(outcome)
            case Movement(debit=debit) | Replay(debit=debit):
                return PostingResult(
                    outcome, accounts[debit.account_id], accounts[debit.counterparty_id]
                )


def _fail(batch: Sequence[_Waiting], error: Exception) -> None:
    for waiting in batch:
        if not waiting.answer.done():
            waiting.answer.set_exception(error)
