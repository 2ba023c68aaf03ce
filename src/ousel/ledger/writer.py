"""The writer of postings: it writes the waiting postings in batches, each in one transaction.

Under load it writes them in two halves: while the database commits one half, this process answers
the callers of the other and reads their next requests. So neither the database nor this process
waits for the other.
"""

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final

import msgspec
from typing_extensions import override

from ousel.database.batching import Batcher, refuse_overdue_items
from ousel.database.port import Database
from ousel.database.retries import RowsLocked
from ousel.kernel.clock import Clock
from ousel.kernel.deadlines import NO_DEADLINE, deadline_exceeded
from ousel.kernel.observers import PostingObserver
from ousel.ledger.batch import Blocked, PostingBatch, PostingResult, WaitingPosting
from ousel.ledger.interfaces import ChargeRows, RecipientNotices
from ousel.ledger.notifier import MovementNotifier
from ousel.ledger.recent_movements import RecentMovements
from ousel.ledger.rules import Posting

UNHALVED_POSTINGS_MAX: Final = 16  # one transaction for so few postings costs less than two
# On SQLite, nothing else runs during the statements of a batch, which take about 5 ms at this size.
BATCH_POSTINGS_MAX: Final = 128
ANSWER_DELAY_SECONDS_MAX: Final = 0.002
CONTENTION_SECONDS: Final = 0.1  # how long a row counts as contended after a wait for it
RECIPIENTS_CACHED_MAX: Final = 100_000


class PostingContext(msgspec.Struct):
    """What all writers of one queue share."""

    database: Database
    clock: Clock
    charge_rows: ChargeRows
    notices: RecipientNotices
    observer: PostingObserver
    notifier: MovementNotifier
    set_aside: Callable[[WaitingPosting, str], None]  # lets a posting wait for a locked row
    # The account id of each username and account number. This never changes.
    recipients: dict[str, str] = msgspec.field(default_factory=dict)
    recent_movements: RecentMovements = msgspec.field(default_factory=RecentMovements)
    batches_written: int = 0

    def limit_recipients(self) -> None:
        """Start a new cache if this one is full."""
        if len(self.recipients) > RECIPIENTS_CACHED_MAX:
            self.recipients = {}


class PostingWriter(Batcher[Posting, PostingResult | Blocked]):
    """Writes postings, and sets aside those that need a locked row."""

    def __init__(self, context: PostingContext) -> None:
        """Begin without postings."""
        super().__init__()
        self._context = context
        self._last_batch_size = 0
        self._unanswered: Sequence[tuple[WaitingPosting, PostingResult | Blocked]] = ()

    def post(self, posting: Posting, deadline: float) -> "asyncio.Future[PostingResult | Blocked]":
        """Return a future for the outcome of a posting."""
        return self._enqueue(posting, deadline)

    @override
    def _next_batch(self, items_max: int) -> list[WaitingPosting]:
        """Take all postings if they are few, and half of them, up to a limit, if they are many.

        The postings of the last batch count too, because their callers will soon send again.
        """
        half = (self.waiting_count + self._last_batch_size + 1) // 2
        wanted = min(max(half, UNHALVED_POSTINGS_MAX), BATCH_POSTINGS_MAX)
        batch = super()._next_batch(min(wanted, items_max))
        self._last_batch_size = len(batch)
        if not batch:
            self._answer_committed()
        return batch

    @override
    async def _run_batch(self, batch: list[WaitingPosting]) -> Sequence[PostingResult | Blocked]:
        return await self._write_batch(batch)

    async def _write_batch(
        self, batch: list[WaitingPosting], awaited: str | None = None
    ) -> Sequence[PostingResult | Blocked]:
        """Write the postings, after waiting for the awaited row if there is one."""
        started = perf_counter()
        context = self._context
        context.limit_recipients()
        writing = PostingBatch(
            batch,
            context.recipients,
            context.charge_rows,
            context.notices,
            context.clock,
            awaited,
        )

        def before_commit() -> None:
            self._answer_committed()
            writing.check_callers()

        results = await context.database.write(
            writing.write,
            resolves_unknown_commit=True,
            before_commit=before_commit,
            repeats_locked=awaited is None,
        )
        context.batches_written += 1
        context.recent_movements.add(writing.id, writing.movements)
        context.observer.batch_written(len(batch), perf_counter() - started)
        context.notifier.notify_of_results(results)
        return results

    @override
    def _answer(
        self, batch: Sequence[WaitingPosting], results: Sequence[PostingResult | Blocked]
    ) -> None:
        """Answer the batch at once or, if others wait, while the next batch is committed.

        Answering takes longer than looking up and locking, and would keep the database waiting.
        """
        self._answer_committed()
        self._unanswered = tuple(zip(batch, results, strict=True))
        if self.waiting_count:
            loop = asyncio.get_running_loop()
            loop.call_later(ANSWER_DELAY_SECONDS_MAX, self._answer_committed)
        else:
            self._answer_committed()

    def _answer_committed(self) -> None:
        """Answer the callers whose postings are on disk, and set aside those that are blocked."""
        unanswered, self._unanswered = self._unanswered, ()
        for waiting, result in unanswered:
            if isinstance(result, Blocked):
                self._context.set_aside(waiting, result.row_id)
            elif not waiting.answer.done():
                waiting.answer.set_result(result)


class BlockedPostingWriter(PostingWriter):
    """Writes the postings that need one row, which another transaction has locked.

    It waits in the database, in the same queue as all others that need the row, and holds no
    other lock meanwhile. So it blocks nobody, and no deadlock is possible.
    """

    def __init__(
        self,
        context: PostingContext,
        row_id: str,
        first_waits: asyncio.Semaphore,
        repeated_waits: asyncio.Semaphore,
        end: Callable[["BlockedPostingWriter"], None],
    ) -> None:
        """Wait for this row; the semaphores limit how many rows this process waits for at once."""
        super().__init__(context)
        self.row_id = row_id
        self._waits = self._first_waits = first_waits
        self._repeated_waits = repeated_waits
        self._end = end

    def add(self, waiting: WaitingPosting) -> None:
        """Take over a posting that another writer has set aside."""
        self._add(waiting)

    @override
    async def _run_until_empty(self) -> None:
        try:
            await super()._run_until_empty()
        finally:
            # Another process that uses the row will probably use it again soon, so keep this
            # writer for a while.
            asyncio.get_running_loop().call_later(CONTENTION_SECONDS, self._end_if_idle)

    def _end_if_idle(self) -> None:
        if self._running is None:
            self._end(self)

    @override
    async def _run_batch(self, batch: list[WaitingPosting]) -> Sequence[PostingResult | Blocked]:
        deadline = min(waiting.deadline for waiting in batch)
        try:
            async with asyncio.timeout_at(None if deadline == NO_DEADLINE else deadline):
                await self._waits.acquire()
        except TimeoutError:
            raise deadline_exceeded() from None
        waits = self._waits
        try:
            results = await self._write_batch(batch, self.row_id)
        finally:
            waits.release()
        self._waits = self._first_waits
        return results

    @override
    def _parts_to_repeat(
        self, batch: list[WaitingPosting], error: Exception
    ) -> Sequence[list[WaitingPosting]]:
        """If the row is still locked, wait again, on the connection for repeated waits.

        So the connections for first waits stay free.
        """
        if isinstance(error, RowsLocked):
            self._waits = self._repeated_waits
            return [refuse_overdue_items(batch)]
        return super()._parts_to_repeat(batch, error)
