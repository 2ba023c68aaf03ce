"""When requests arrived, although the process may have read them later.

A process that is stopped, paused with its machine or short of CPU time stands still. Requests that
arrive meanwhile wait in its sockets. If their deadlines began only when they are read, a request
could be executed long after its client had looked and found nothing.
"""

import asyncio
import math
from typing import Final

STANDSTILL_TICK_SECONDS: Final = 1.0


class Arrivals:
    """Knows when the process last stood still, from ticks that came late."""

    def __init__(self) -> None:
        """Know nothing until the first tick."""
        self._next_tick_at = math.inf
        self._began_at = self._ended_at = -math.inf  # the last standstill

    async def tick(self) -> None:
        """Note that the process runs; to be called every STANDSTILL_TICK_SECONDS."""
        now = asyncio.get_running_loop().time()
        if now > self._next_tick_at + STANDSTILL_TICK_SECONDS:
            self._began_at = self._current_began_at()
            self._ended_at = now + STANDSTILL_TICK_SECONDS  # time to read what has arrived
        self._next_tick_at = now + STANDSTILL_TICK_SECONDS

    def earliest(self, read_at: float) -> float:
        """Return when a request that was read at this time arrived at the earliest.

        Both times are the event loop's.
        """
        if self._began_at < read_at <= self._ended_at:
            return self._began_at
        if read_at > self._next_tick_at:
            return self._current_began_at()
        return read_at

    def _current_began_at(self) -> float:
        """Return since when the process stands still, if the next tick is late."""
        is_same = self._next_tick_at <= self._ended_at  # it has hardly run in between
        return self._began_at if is_same else self._next_tick_at
