"""Work on daemon threads, which do not keep a process from stopping."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

Result = TypeVar("Result")


async def run_on_thread(name: str, work: Callable[[], Result]) -> Result:
    """Return what the work returns, or raise what it raises, without blocking the event loop.

    The work has a thread of its own. It is a daemon thread, so the process can stop even while the
    work waits, for example for a server that does not answer. If the caller is canceled, the
    thread goes on.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def settle(set_outcome: Callable[[Any], None], outcome: object) -> None:
        if not done.done():  # else the caller has given up
            set_outcome(outcome)

    def run() -> None:
        try:
            settled = partial(settle, done.set_result, work())
        except Exception as error:  # noqa: BLE001 - it is passed on to the caller
            settled = partial(settle, done.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(settled)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await done
