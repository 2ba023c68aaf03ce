"""The queue of postings: the only way to change a balance.

The postings that wait are written as one batch: one transaction, one flush to disk. Under load
they are written in two halves: while the database commits one half, this process answers the
callers of the other and reads their next requests. So neither the database nor
this process waits for the other.
"""

import asyncio
from collections.abc import Sequence
from time import perf_counter
from typing import Final

from typing_extensions import override

from ousel.database.batching import Batcher, Waiting
from ousel.database.port import Database
from ousel.database.statements import UnstorableValue
from ousel.kernel.clock import Clock
from ousel.kernel.observers import NO_OBSERVER, PostingObserver
from ousel.ledger.batch import ChargeRows, NoCharges, PostingBatch, PostingResult
from ousel.ledger.refusals import PostingRefused, QueueFull
from ousel.ledger.rules import Posting

UNHALVED_POSTINGS_MAX: Final = 16  # one transaction for so few postings costs less than two
ANSWER_DELAY_SECONDS_MAX: Final = 0.002
RECIPIENTS_CACHED_MAX: Final = 100_000


class PostingQueue(Batcher[Posting, PostingResult]):
    """Takes postings from any number of callers and writes them batch by batch."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        queue_limit: int,
        charge_rows: ChargeRows | None = None,
        observer: PostingObserver = NO_OBSERVER,
    ) -> None:
        """Write to this database; refuse a posting while `queue_limit` others wait."""
        super().__init__()
        self._database = database
        self._clock = clock
        self.queue_limit = queue_limit
        self._charge_rows = NoCharges() if charge_rows is None else charge_rows
        self._observer = observer
        self._last_batch_size = 0
        self._unanswered: Sequence[tuple[Waiting[Posting, PostingResult], PostingResult]] = ()
        self._recipients: dict[str, str] = {}  # an identifier never changes its account

    async def post(self, posting: Posting) -> PostingResult:
        """Return the posting's outcome once it is on disk."""
        if self.waiting >= self.queue_limit:
            raise QueueFull("Too many transfers are waiting to be written.", retry_after_seconds=1)
        try:
            return await self._enqueue(posting)
        except UnstorableValue as error:
            raise PostingRefused("The database cannot store a value of this transfer.") from error

    @override
    def _next_batch(self, items_max: int) -> list[Waiting[Posting, PostingResult]]:
        """Take all postings if they are few, and half of them if they are many.

        The postings of the last batch count too, because their callers will soon send again.
        """
        half = (self.waiting + self._last_batch_size + 1) // 2
        batch = super()._next_batch(min(max(half, UNHALVED_POSTINGS_MAX), items_max))
        self._last_batch_size = len(batch)
        if not batch:
            self._answer_committed()
        return batch

    @override
    async def _run_batch(self, items: list[Posting]) -> list[PostingResult]:
        started = perf_counter()
        if len(self._recipients) > RECIPIENTS_CACHED_MAX:
            self._recipients.clear()
        batch = PostingBatch(items, self._recipients, self._charge_rows, self._clock)
        results = await self._database.write(
            batch.write, resolves_unknown_commit=True, while_committing=self._answer_committed
        )
        self._observer.batch_written(len(items), perf_counter() - started)
        return results

    @override
    def _answer(
        self,
        batch: Sequence[Waiting[Posting, PostingResult]],
        results: Sequence[PostingResult],
    ) -> None:
        """Answer the batch at once or, if others wait, while the next batch is committed.

        Answering takes longer than looking up and locking, and would keep the database waiting.
        """
        self._answer_committed()
        self._unanswered = tuple(zip(batch, results, strict=True))
        if self.waiting:
            loop = asyncio.get_running_loop()
            loop.call_later(ANSWER_DELAY_SECONDS_MAX, self._answer_committed)
        else:
            self._answer_committed()

    def _answer_committed(self) -> None:
        """Answer the callers whose postings are on disk."""
        unanswered, self._unanswered = self._unanswered, ()
        for waiting, result in unanswered:
            if not waiting.answer.done():
                waiting.answer.set_result(result)
