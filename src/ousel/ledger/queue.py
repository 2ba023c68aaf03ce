"""The queue of postings: the only way to change a balance.

The postings that wait are written as one batch: one transaction, one flush to disk. A posting
that needs a row which another transaction has locked waits separately, on another connection,
and the others are written without it.
"""

import asyncio
from typing import Final

from ousel.database.port import Database
from ousel.database.statements import UnstorableValue
from ousel.kernel.clock import Clock
from ousel.kernel.deadlines import current_deadline
from ousel.kernel.observers import NO_OBSERVER, PostingObserver
from ousel.ledger.batch import Blocked, PostingResult, WaitingPosting, rows_of
from ousel.ledger.interfaces import ChargeRows, NoCharges, NoNotices, RecipientNotices
from ousel.ledger.notifier import MovementNotifier
from ousel.ledger.recent_movements import RecentMovements
from ousel.ledger.refusals import PostingRefused, QueueFull
from ousel.ledger.rules import Posting
from ousel.ledger.writer import (
    BlockedPostingWriter,
    PostingContext,
    PostingWriter,
)

# How many connections may wait for locked rows: for rows that were just found locked, and for rows
# that were still locked after a first wait. The remaining connections are left to ordinary postings
# and other writes.
FIRST_WAITS_MAX: Final = 2
REPEATED_WAITS_MAX: Final = 1


class PostingQueue:
    """Takes postings from any number of callers and has them written batch by batch."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        queue_limit: int,
        charge_rows: ChargeRows | None = None,
        notices: RecipientNotices | None = None,
        observer: PostingObserver = NO_OBSERVER,
    ) -> None:
        """Write to this database; refuse a posting while `queue_limit` others wait."""
        self.queue_limit = queue_limit
        self.notifier = MovementNotifier(database)
        self._context = PostingContext(
            database,
            clock,
            charge_rows or NoCharges(),
            notices or NoNotices(),
            observer,
            self.notifier,
            self._set_aside,
        )
        self._writer = PostingWriter(self._context)
        self._blocked_writers: dict[str, BlockedPostingWriter] = {}  # by the id of the locked row
        self._first_waits = asyncio.Semaphore(FIRST_WAITS_MAX)
        self._repeated_waits = asyncio.Semaphore(REPEATED_WAITS_MAX)

    @property
    def waiting_count(self) -> int:
        """How many postings wait for the next batch."""
        waiting = self._writer.waiting_count
        if self._blocked_writers:
            waiting += sum(writer.waiting_count for writer in self._blocked_writers.values())
        return waiting

    @property
    def recent_movements(self) -> RecentMovements:
        """The movements that this process has written lately."""
        return self._context.recent_movements

    @property
    def batches_written(self) -> int:
        """How many batches this process has written."""
        return self._context.batches_written

    async def close(self) -> None:
        """Write the postings that still wait."""
        await self._writer.close()
        while running := [each for each in self._blocked_writers.values() if each.is_running]:
            await running[0].close()

    async def post(self, posting: Posting) -> PostingResult:
        """Return the posting's outcome once it is on disk."""
        if self.waiting_count >= self.queue_limit:
            raise QueueFull("Too many transfers are waiting to be written.", retry_after_seconds=1)
        writer = self._writer_for(posting) if self._blocked_writers else self._writer
        try:
            result = await writer.post(posting, current_deadline())
        except UnstorableValue as error:
            raise PostingRefused("The database cannot store a value of this transfer.") from error
        assert not isinstance(result, Blocked), "a posting that is set aside is answered later"
        return result

    def _writer_for(self, posting: Posting) -> PostingWriter:
        """Return the writer that waits for a row that this posting needs, or the ordinary one."""
        for row_id in rows_of(posting, self._context.recipients):
            if row_id in self._blocked_writers:
                return self._blocked_writers[row_id]
        return self._writer

    def _set_aside(self, waiting: WaitingPosting, row_id: str) -> None:
        writer = self._blocked_writers.get(row_id)
        if writer is None:
            writer = self._blocked_writers[row_id] = BlockedPostingWriter(
                self._context,
                row_id,
                self._first_waits,
                self._repeated_waits,
                end=self._remove,
            )
        writer.add(waiting)

    def _remove(self, writer: BlockedPostingWriter) -> None:
        if self._blocked_writers.get(writer.row_id) is writer:
            del self._blocked_writers[writer.row_id]
