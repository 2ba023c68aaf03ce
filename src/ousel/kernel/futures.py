"""Futures that many callers wait for."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, Final, Generic, TypeVar

from ousel.kernel.deadlines import NO_DEADLINE, set_deadline

# To answer two refused requests takes about a quarter of a millisecond. Another request needs
# several turns of the event loop, so it is delayed by one or two milliseconds.
FAILED_AT_ONCE: Final = 2

Key = TypeVar("Key", bound=Hashable)


def fail_gradually(futures: Sequence[asyncio.Future[Any]], error: Exception) -> None:
    """Let the callers that wait for these futures fail, a few in each iteration of the event loop.

    So other requests are answered in between, even if thousands of callers wait.
    """
    for future in futures[:FAILED_AT_ONCE]:
        if not future.done():
            future.set_exception(error)
    if remaining := futures[FAILED_AT_ONCE:]:
        asyncio.get_running_loop().call_soon(fail_gradually, remaining, error)


class SharedCalls(Generic[Key]):
    """Makes one call for all callers that have the same key at the same time."""

    def __init__(self, call: Callable[[Key], Awaitable[object]]) -> None:
        """Make this call; it goes on even if all its callers have given up."""
        self._call = call
        self._callers: dict[Key, list[asyncio.Future[None]]] = {}
        self._running: set[asyncio.Task[None]] = set()  # so that they are not collected as garbage

    async def run(self, key: Key) -> None:
        """Return when the call with this key has ended; begin it unless it is running."""
        caller: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        callers = self._callers.setdefault(key, [])
        callers.append(caller)
        if len(callers) == 1:
            running = asyncio.create_task(self._run(key))
            self._running.add(running)
            running.add_done_callback(self._running.discard)
        await caller

    async def _run(self, key: Key) -> None:
        set_deadline(NO_DEADLINE)  # that of the first caller does not concern the others
        try:
            await self._call(key)
        except Exception as error:  # noqa: BLE001 - the callers get it
            fail_gradually(self._callers.pop(key), error)
        else:
            for caller in self._callers.pop(key):
                if not caller.done():
                    caller.set_result(None)
