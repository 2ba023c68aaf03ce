"""Row locks: who holds which row, and who waits for it, in the order of arrival."""

import asyncio
from collections.abc import Hashable, Iterable
from typing import Any

from ousel.database.retries import RowsLocked, TransientFailure
from ousel.kernel.errors import DatabaseUnavailable

Row = Hashable


class LockOwner:
    """A transaction, seen as the holder of locks."""

    def __init__(self) -> None:
        self.held: set[Row] = set()
        self.waits_for: Row | None = None
        self.is_broken = False
        self.pending: asyncio.Future[Any] | None = None  # what its process waits for


class LockTable:
    """The row locks of one database server."""

    def __init__(self, server_loop: asyncio.AbstractEventLoop, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._server_loop = server_loop  # lock timeouts expire even if the process is frozen
        self._holders: dict[Row, LockOwner] = {}
        self._waiters: dict[Row, list[tuple[LockOwner, asyncio.Future[None]]]] = {}

    def is_locked(self, row: Row, owner: LockOwner) -> bool:
        """Return whether another owner holds this row."""
        return self._holders.get(row, owner) is not owner

    def take_free(self, rows: Iterable[Row], owner: LockOwner) -> bool:
        """Lock all of the rows if nobody else holds any; return whether that was so."""
        wanted = list(rows)
        if any(row in self._holders and self._holders[row] is not owner for row in wanted):
            return False
        for row in wanted:
            self._holders[row] = owner
            owner.held.add(row)
        return True

    async def take(self, rows: Iterable[Row], owner: LockOwner) -> None:
        """Lock the rows one after the other, each as soon as its holder releases it."""
        for row in rows:
            if owner.is_broken:  # while its process was frozen
                return
            holder = self._holders.get(row)
            if holder is None:
                self._holders[row] = owner
                owner.held.add(row)
            elif holder is not owner:
                await self._wait(row, owner)

    def release_all(self, owner: LockOwner) -> None:
        """Release what the owner holds, each row to the one who has waited longest for it."""
        held, owner.held = owner.held, set()
        for row in sorted(held, key=repr):
            if self._holders.get(row) is owner:
                del self._holders[row]
                self._grant(row)

    def _grant(self, row: Row) -> None:
        waiters = self._waiters.get(row, [])
        while waiters:
            owner, granted = waiters.pop(0)
            if not granted.done():
                self._holders[row] = owner
                owner.held.add(row)
                granted.set_result(None)
                return
        self._waiters.pop(row, None)

    async def _wait(self, row: Row, owner: LockOwner) -> None:
        if self._is_deadlock(row, owner):
            raise TransientFailure(DatabaseUnavailable("Deadlock.", retry_after_seconds=1))
        loop = asyncio.get_running_loop()
        granted: asyncio.Future[None] = loop.create_future()
        self._waiters.setdefault(row, []).append((owner, granted))
        owner.waits_for = row
        timer = self._server_loop.call_later(self._timeout_seconds, _time_out, granted)
        owner.pending = granted
        try:
            await granted
        finally:
            timer.cancel()
            owner.waits_for = None
            owner.pending = None

    def _is_deadlock(self, row: Row | None, owner: LockOwner) -> bool:
        """Return whether waiting for the row would close a circle of waiting owners."""
        seen: set[int] = set()
        while row is not None:
            holder = self._holders.get(row)
            if holder is owner:
                return True
            if holder is None or id(holder) in seen:
                return False
            seen.add(id(holder))
            row = holder.waits_for
        return False


def _time_out(granted: "asyncio.Future[Any]") -> None:
    if not granted.done():
        granted.set_exception(TransientFailure(RowsLocked()))
