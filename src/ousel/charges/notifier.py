"""Waiting for a charge's outcome: one watcher for all who wait in this process.

Nobody who waits asks the database: the watcher asks for all of them with one statement, a few
times a second and only while somebody waits. A payment made in this process, and the moment of
expiry, wake at once.
"""

import asyncio
from typing import Final

import structlog

from ousel.charges import store
from ousel.charges.rules import Charge
from ousel.database.port import Database
from ousel.kernel.clock import MICROS_PER_SECOND, Clock
from ousel.kernel.errors import Refusal

POLL_SECONDS: Final = 0.25
EXPIRY_SLACK_SECONDS: Final = 0.001  # a timer may be early by less than the clock's own step
WAITING_MAX: Final = 10_000
STRANGERS_WAITING_MAX: Final = 100  # for one charge

_log = structlog.get_logger()


class _WaitedCharge:
    """One charge, and those who wait for it."""

    __slots__ = ("expires_at", "waiting")

    def __init__(self, expires_at: int) -> None:
        self.expires_at = expires_at
        self.waiting: set[asyncio.Future[None]] = set()


class ChargeNotifier:
    """Wakes those who wait for a charge when it may have changed."""

    def __init__(self, database: Database, clock: Clock) -> None:
        """Ask this database for what other processes write."""
        self._database = database
        self._clock = clock
        self._watched: dict[str, _WaitedCharge] = {}
        self._count = 0
        self._polling: asyncio.Task[None] | None = None
        self.stopped = False

    @property
    def has_room(self) -> bool:
        """Say whether one more may wait."""
        return self._count < WAITING_MAX

    def has_room_for_stranger(self, charge_id: str) -> bool:
        """Say whether one more may wait for this charge who need not show who it is.

        Whoever knows a charge's page could otherwise take all the room there is.
        """
        watched = self._watched.get(charge_id)
        return self.has_room and (watched is None or len(watched.waiting) < STRANGERS_WAITING_MAX)

    async def wait_for_change(self, charge: Charge, seconds: float) -> None:
        """Return when the charge may have changed, and at the latest after so many seconds."""
        if self.stopped:
            return
        loop = asyncio.get_running_loop()
        until_expiry = (charge.expires_at - self._clock()) / MICROS_PER_SECOND
        woken: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(
            min(seconds, max(until_expiry, 0) + EXPIRY_SLACK_SECONDS), _wake, woken
        )
        watched = self._watched.setdefault(charge.id, _WaitedCharge(charge.expires_at))
        watched.waiting.add(woken)
        self._count += 1
        if self._polling is None:
            self._polling = loop.create_task(self._poll())
        try:
            await woken
        finally:
            timer.cancel()
            self._count -= 1
            watched.waiting.discard(woken)
            if not watched.waiting and self._watched.get(charge.id) is watched:
                del self._watched[charge.id]

    def notify(self, charge_id: str) -> None:
        """Wake those who wait for this charge."""
        watched = self._watched.pop(charge_id, None)
        if watched is not None:
            for woken in watched.waiting:
                _wake(woken)

    def stop(self) -> None:
        """Wake everyone, and let nobody wait from now on: the server is about to end."""
        self.stopped = True
        for charge_id in list(self._watched):
            self.notify(charge_id)

    async def _poll(self) -> None:
        try:
            while self._watched:
                await asyncio.sleep(POLL_SECONDS)
                await self._wake_changed()
        finally:
            self._polling = None

    async def _wake_changed(self) -> None:
        """Wake those whose charges are final by now, by the database or by the clock."""
        now = self._clock()
        ids = list(self._watched)
        final = [charge_id for charge_id in ids if self._watched[charge_id].expires_at <= now]
        try:
            final += await self._database.read(
                lambda transaction: store.final_charges(transaction, ids)
            )
        except Refusal as refusal:
            _log.warning("waiting charges not read", code=refusal.code)
        for charge_id in final:
            self.notify(charge_id)


def _wake(woken: "asyncio.Future[None]") -> None:
    if not woken.done():
        woken.set_result(None)
