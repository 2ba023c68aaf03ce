"""Suspended writes: no write begins while commits hang or fail.

Probe commits, one at a time, find out when commits succeed again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from ousel.kernel.errors import DatabaseUnavailable
from ousel.kernel.logs import EventLogger

PROBE_SECONDS_MAX: Final = 1.0  # a probe that takes longer suspends writes until it has succeeded
PROBE_PAUSE_SECONDS: Final = 0.25

_log = EventLogger()


class WriteSuspension:
    """Once commits hang or fail, refuses all writes until a probe commit succeeds."""

    def __init__(
        self,
        probe: Callable[[], Awaitable[None]],
        on_suspended: Callable[[], None] = lambda: None,
    ) -> None:
        """Test commits with `probe`, which raises on failure; call `on_suspended` on suspension."""
        self._probe = probe
        self._on_suspended = on_suspended
        self._probing: asyncio.Task[None] | None = None
        self.is_suspended = False

    def check(self) -> None:
        """Raise DatabaseUnavailable if writes are suspended."""
        if self.is_suspended:
            raise suspension_refusal()

    def suspend(self) -> None:
        """Refuse writes from now on, until a probe succeeds."""
        if not self.is_suspended:
            self.is_suspended = True
            _log.warning("writes are suspended until a commit succeeds again")
            self._on_suspended()
        self.probe()

    def probe(self) -> None:
        """Find out whether commits succeed; if not within a second, suspend writes."""
        if self._probing is None:
            self._probing = asyncio.create_task(self._probe_until_success())

    async def close(self) -> None:
        """Stop probing."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)

    async def _probe_until_success(self) -> None:
        overdue = asyncio.get_running_loop().call_later(PROBE_SECONDS_MAX, self.suspend)
        try:
            while not await self._succeeds():
                self.suspend()
                await asyncio.sleep(PROBE_PAUSE_SECONDS)
        finally:
            overdue.cancel()
            self._probing = None
        if self.is_suspended:
            self.is_suspended = False
            _log.warning("writes are resumed: a commit has succeeded")

    async def _succeeds(self) -> bool:
        try:
            await self._probe()
        except Exception as error:  # noqa: BLE001 - whatever it was, commits do not succeed yet
            _log.debug("a probe commit failed", error=repr(error))
            return False
        return True


def suspension_refusal() -> DatabaseUnavailable:
    """Return the refusal of a write while writes are suspended."""
    return DatabaseUnavailable(
        "The database does not complete commits at the moment, so writes are refused.",
        retry_after_seconds=1,
    )
