"""Deletes what nobody needs any longer: what has expired, unused browsers, and old events."""

from collections.abc import Awaitable, Callable
from typing import Final

from ousel.database.port import Database, Transaction
from ousel.database.sweeping import sweep
from ousel.emails.service import PendingConfirmations
from ousel.kernel.clock import MICROS_PER_DAY, Clock
from ousel.passkeys.service import delete_expired_challenges
from ousel.people import store
from ousel.resets import service as resets

AUDIT_DAYS: Final = 2 * 365
BROWSER_DAYS: Final = 90


class RetentionService:
    """Deletes old rows about people, so that no table grows forever, even for dormant accounts."""

    def __init__(
        self, database: Database, clock: Clock, pending_confirmations: PendingConfirmations
    ) -> None:
        """Delete by the real clock, also in a sandbox, whose clock can be advanced."""
        self._database = database
        self._clock = clock
        self._pending_confirmations = pending_confirmations

    async def sweep(self) -> int:
        """Delete what is too old; return how many rows."""
        return (
            await self._sweep(store.delete_expired_sessions, 0)
            + await self._sweep(store.delete_unused_browsers, BROWSER_DAYS)
            + await self._sweep(store.delete_old_events, AUDIT_DAYS)
            + await self._sweep(self._pending_confirmations.delete_expired, 1)
            + await self._sweep(resets.delete_expired, 0)
            + await self._sweep(delete_expired_challenges, 1)
        )

    async def _sweep(
        self, delete: Callable[[Transaction, int, int], Awaitable[int]], days: int
    ) -> int:
        before = self._clock() - days * MICROS_PER_DAY
        return await sweep(
            self._database, lambda transaction, limit: delete(transaction, before, limit)
        )
