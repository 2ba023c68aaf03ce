"""A thread beside the event loop, for what would hold it up.

An executor of the standard library does the same, but takes three times as long to get there and
back: as long as a flush of a good disk.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

Result = TypeVar("Result")


class CommitThread:
    """Runs one task after the other."""

    def __init__(self, name: str) -> None:
        """Start the thread; until it is closed it waits for tasks."""
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, task: Callable[[], Result]) -> Result:
        """Return what the task returns; whoever gives up meanwhile still waits for its end."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()
        self._tasks.put(partial(_run_task, task, done, loop))
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            await asyncio.wait([done])
            raise

    def close(self) -> None:
        """End the thread, after what it has to do still."""
        self._tasks.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()


def _run_task(
    task: Callable[[], Result], done: "asyncio.Future[Result]", loop: asyncio.AbstractEventLoop
) -> None:
    try:
        result = task()
    except BaseException as error:  # noqa: BLE001 - whoever waits for it gets it
        loop.call_soon_threadsafe(done.set_exception, error)
    else:
        loop.call_soon_threadsafe(done.set_result, result)
