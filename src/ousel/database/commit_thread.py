"""A thread beside the event loop, for commits, which would block the loop.

The standard library's executor does the same with three times the overhead. The overhead of the
executor is about as long as a fast disk needs for a flush.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

from ousel.kernel.cancellation import run_to_end

Result = TypeVar("Result")


class CommitThread:
    """Runs one task after the other on its own thread."""

    def __init__(self, name: str) -> None:
        """Start the thread, which waits for tasks until `close`."""
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, task: Callable[[], Result]) -> Result:
        """Return what the task returns; a canceled caller still waits until the task has ended.

        If the task then fails, the caller gets its error instead of the cancellation.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()
        self._tasks.put(partial(_run_task, task, done, loop))
        return await run_to_end(done)

    def close(self) -> None:
        """Run the remaining tasks, then end the thread."""
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
    except BaseException as error:  # noqa: BLE001 - the caller of `run` gets it
        loop.call_soon_threadsafe(done.set_exception, error)
    else:
        loop.call_soon_threadsafe(done.set_result, result)
