"""The time of the event loop, which a test can advance."""

import asyncio


class LoopTime:
    """Replaces the clock of the running event loop, which its deadlines and timers use."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._real_time = loop.time
        self._advanced_seconds = 0.0
        loop.time = self.now  # type: ignore[method-assign]

    def now(self) -> float:
        """Return the time."""
        return self._real_time() + self._advanced_seconds

    def advance(self, seconds: float) -> None:
        """Let this many seconds pass at once."""
        self._advanced_seconds += seconds
