"""Futures that many callers wait for."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator
from typing import Any, Final, Generic, TypeVar

from ousel.kernel.deadlines import NO_DEADLINE, set_deadline

# To answer a refused request takes up to a third of a millisecond. Another request needs about
# eight iterations of the event loop, so it is delayed by less than one millisecond.
ITERATIONS_PER_FAILURE: Final = 4

Key = TypeVar("Key", bound=Hashable)


def fail_gradually(futures: Iterable[asyncio.Future[Any]], error: Exception) -> None:
    """Let the callers that wait for these futures fail, one every few iterations of the event loop.

    So other requests are answered in between, even if thousands of callers wait.
    """
    remaining = iter(futures)
    for future in remaining:
        if not future.done():
            future.set_exception(error)
            _fail_others_later(remaining, error, ITERATIONS_PER_FAILURE)
            return


def _fail_others_later(
    remaining: Iterator[asyncio.Future[Any]], error: Exception, iterations: int
) -> None:
    """Let the others fail after this many iterations of the event loop."""
    if iterations:
        asyncio.get_running_loop().call_soon(_fail_others_later, remaining, error, iterations - 1)
    else:
        fail_gradually(remaining, error)


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
