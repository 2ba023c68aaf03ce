"""Waiting for changes: one task notifies all callers who wait in this process.

Those who wait do not query the database themselves. With one statement, the task asks about all
rows that somebody waits for. It does so a few times a second, and only while somebody waits. When
this process itself writes such a row, it wakes those who wait for it at once, without a query.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Final

from ousel.database.port import Database, Transaction
from ousel.kernel.errors import Refusal
from ousel.kernel.logs import EventLogger

POLL_SECONDS: Final = 0.25

_log = EventLogger()


class _AwaitedRow:
    """Those who wait for a row, and the mark by which a poll recognizes a change."""

    __slots__ = ("mark", "waiters")

    def __init__(self, mark: int) -> None:
        self.mark = mark
        self.waiters: set[asyncio.Future[None]] = set()


class ChangeNotifier(ABC):
    """Wakes those who wait for a row when it may have changed.

    Whoever waits gives a mark: a number that they have read in the row. A poll compares it, to find
    out whether the row has changed.
    """

    def __init__(self, database: Database) -> None:
        """Poll this database for what other processes write."""
        self._database = database
        self._awaited: dict[str, _AwaitedRow] = {}  # by the id of the row
        self._polling: asyncio.Task[None] | None = None
        self.waiter_count = 0
        self.stopped = False

    @abstractmethod
    async def _find_changed(
        self, transaction: Transaction, marks: Mapping[str, int]
    ) -> Collection[str]:
        """Return the ids of the rows that have changed since they had these marks."""

    async def _wait(self, row_id: str, mark: int, seconds: float) -> None:
        """Return when the row may have changed, or after this many seconds.

        If others wait for the same row, the lowest mark counts: nobody misses a change.
        """
        if self.stopped:
            return
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(seconds, _wake, waiter)
        awaited = self._awaited.setdefault(row_id, _AwaitedRow(mark))
        awaited.mark = min(awaited.mark, mark)
        awaited.waiters.add(waiter)
        self.waiter_count += 1
        if self._polling is None:
            self._polling = loop.create_task(self._poll())
        try:
            await waiter
        finally:
            timer.cancel()
            self.waiter_count -= 1
            awaited.waiters.discard(waiter)
            if not awaited.waiters and self._awaited.get(row_id) is awaited:
                del self._awaited[row_id]

    def notify(self, row_id: str) -> None:
        """Wake those who wait for this row."""
        awaited = self._awaited.pop(row_id, None)
        if awaited is not None:
            for waiter in awaited.waiters:
                _wake(waiter)

    def stop(self) -> None:
        """Wake everyone and accept no more waiters, because the server is stopping."""
        self.stopped = True
        for row_id in list(self._awaited):
            self.notify(row_id)

    async def _poll(self) -> None:
        try:
            while self._awaited:
                await asyncio.sleep(POLL_SECONDS)
                await self._wake_changed()
        finally:
            self._polling = None

    async def _wake_changed(self) -> None:
        marks = {row_id: awaited.mark for row_id, awaited in self._awaited.items()}
        try:
            changed = await self._database.read(
                lambda transaction: self._find_changed(transaction, marks)
            )
        except Refusal as refusal:
            _log.warning("could not read the rows that are waited for", code=refusal.code)
            return
        for row_id in changed:
            self.notify(row_id)


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
