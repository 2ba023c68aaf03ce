"""Turns: they spread sudden work over several iterations of the event loop.

Without them, if hundreds of clients connect or hang up at the same moment, everybody else waits
until the last of them is served.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

TURNS_PER_ROUND: Final = 8

Callback = Callable[[], Any]


class Turns:
    """Runs callbacks in the order of their arrival, a few in every second iteration of the loop.

    To answer a request on another connection takes about eight iterations, so half of them should
    be short. Requests that begin together share statements, so no fewer of them begin at once.
    """

    def __init__(self) -> None:
        """Begin with nothing to run."""
        self._waiting: deque[Callback] = deque()
        self._taken = 0  # in this round

    def call(self, callback: Callback) -> None:
        """Run the callback at once, or in a later round if this one has no turn left."""
        if self._waiting or self._taken == TURNS_PER_ROUND:
            self._waiting.append(callback)
            return
        if not self._taken:
            asyncio.get_running_loop().call_soon(self._skip_iteration)
        self._taken += 1
        callback()

    async def take(self) -> None:
        """Return when the caller has its turn."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.call(lambda: None if turn.done() else turn.set_result(None))
        await turn

    def _skip_iteration(self) -> None:
        """Let an iteration pass in which nobody has a turn."""
        asyncio.get_running_loop().call_soon(self._begin_round)

    def _begin_round(self) -> None:
        self._taken = min(len(self._waiting), TURNS_PER_ROUND)
        if self._taken:
            asyncio.get_running_loop().call_soon(self._skip_iteration)
        for _ in range(self._taken):
            self._waiting.popleft()()
