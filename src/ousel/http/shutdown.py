"""The server's stop, noticed at the signal: those who wait are answered before it drains."""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def on_stop_signal(notice: Callable[[], None]) -> Iterator[None]:
    """Call `notice` on this event loop when a signal asks the process to stop.

    The server's own handlers, which are there already, are called as before.
    """
    loop = asyncio.get_running_loop()
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread alone
        return
    before = {number: signal.getsignal(number) for number in _STOP_SIGNALS}

    def noticed(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(notice)
        handler = before[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    for number in _STOP_SIGNALS:
        signal.signal(number, noticed)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stop_with_parent() -> None:
    """Leave it to the parent when this process stops, and stop when the parent has died.

    It would go on listening else, and whoever starts the server anew would find the port taken.
    A terminal that is closed tells the parent too, which replaces its processes in their turn.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "only a process of several has a parent"
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
