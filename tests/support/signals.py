"""Signals that a run of the tests may ignore, under nohup or in the background of a script."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

MAY_BE_IGNORED = (signal.SIGHUP, signal.SIGINT)


@contextmanager
def signals_for_children() -> Iterator[None]:
    """Start processes in this block without ignored signals.

    A process inherits ignored signals, but no handlers. So during the block, a handler that does
    nothing replaces each ignored signal, and the signals still have no effect on the tests.
    """
    ignored = [each for each in MAY_BE_IGNORED if signal.getsignal(each) is signal.SIG_IGN]
    for each in ignored:
        signal.signal(each, lambda *_: None)
    try:
        yield
    finally:
        for each in ignored:
            signal.signal(each, signal.SIG_IGN)
