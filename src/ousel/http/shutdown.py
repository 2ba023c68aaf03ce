"""What a server does when a signal asks it to stop."""

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def on_stop_signal(callback: Callable[[], None]) -> Iterator[None]:
    """Call `callback` on this event loop when a signal asks the process to stop.

    The handlers that the server has installed are called as before.
    """
    loop = asyncio.get_running_loop()
    if threading.current_thread() is not threading.main_thread():
        yield  # signals only reach the main thread
        return
    handlers = {number: signal.getsignal(number) for number in _STOP_SIGNALS}

    def handle(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(callback)
        handler = handlers[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    for number in _STOP_SIGNALS:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
