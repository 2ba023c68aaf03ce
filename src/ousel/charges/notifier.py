"""Waiting until a charge changes: one task notifies all callers who wait in this process.

Those who wait do not query the database themselves. The task asks for all their charges with one
statement, a few times a second and only while somebody waits. When this process pays or cancels a
charge, or when the charge expires, those who wait for it are woken at once.
"""

import asyncio
from typing import Final

import structlog

from ousel.charges import store
from ousel.charges.lifecycle import is_overdue, micros_until_expiry
from ousel.charges.rules import Charge
from ousel.database.port import Database
from ousel.kernel.clock import MICROS_PER_SECOND, Clock
from ousel.kernel.errors import Refusal

POLL_SECONDS: Final = 0.25
EXPIRY_SLACK_SECONDS: Final = 0.001  # a timer may fire early by less than the clock's resolution

_log = structlog.get_logger()


class _AwaitedCharge:
    """A charge and those who wait for it."""

    __slots__ = ("charge", "waiters")

    def __init__(self, charge: Charge) -> None:
        self.charge = charge
        self.waiters: set[asyncio.Future[None]] = set()


class ChargeNotifier:
    """Wakes those who wait for a charge when it may have changed."""

    def __init__(self, database: Database, clock: Clock) -> None:
        """Poll this database for what other processes write."""
        self._database = database
        self._clock = clock
        self._awaited: dict[str, _AwaitedCharge] = {}
        self._polling: asyncio.Task[None] | None = None
        self.waiter_count = 0
        self.stopped = False

    async def wait_for_change(self, charge: Charge, seconds: float) -> None:
        """Return when the charge may have changed, or after this many seconds."""
        if self.stopped:
            return
        loop = asyncio.get_running_loop()
        # If an open charge seems overdue, the database's clock is behind this one: return soon, so
        # that the caller asks the database again.
        micros = micros_until_expiry(charge, self._clock())
        expiry_seconds = micros / MICROS_PER_SECOND or POLL_SECONDS
        waiter: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(min(seconds, expiry_seconds + EXPIRY_SLACK_SECONDS), _wake, waiter)
        awaited = self._awaited.setdefault(charge.id, _AwaitedCharge(charge))
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
            if not awaited.waiters and self._awaited.get(charge.id) is awaited:
                del self._awaited[charge.id]

    def notify(self, charge_id: str) -> None:
        """Wake those who wait for this charge."""
        awaited = self._awaited.pop(charge_id, None)
        if awaited is not None:
            for waiter in awaited.waiters:
                _wake(waiter)

    def stop(self) -> None:
        """Wake everyone and accept no more waiters, because the server is stopping."""
        self.stopped = True
        for charge_id in list(self._awaited):
            self.notify(charge_id)

    async def _poll(self) -> None:
        try:
            while self._awaited:
                await asyncio.sleep(POLL_SECONDS)
                await self._wake_changed()
        finally:
            self._polling = None

    async def _wake_changed(self) -> None:
        """Wake those whose charges have expired or have a final status in the database."""
        now = self._clock()
        ids = list(self._awaited)
        final = [id_ for id_ in ids if is_overdue(self._awaited[id_].charge, now)]
        try:
            final += await self._database.read(
                lambda transaction: store.final_charges(transaction, ids)
            )
        except Refusal as refusal:
            _log.warning("could not read the charges that are waited for", code=refusal.code)
        for charge_id in final:
            self.notify(charge_id)


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
