"""Signals that a run of the tests ignores: under nohup, or in the background of a script."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

MAY_BE_IGNORED = (signal.SIGHUP, signal.SIGINT)


@contextmanager
def signals_for_children() -> Iterator[None]:
    """Let the processes that are started in a block take every signal as they usually do.

    A process inherits which signals are ignored, but no handler. So a handler that does nothing
    stands here meanwhile, and the tests themselves still do not mind the signal.
    """
    ignored = [each for each in MAY_BE_IGNORED if signal.getsignal(each) is signal.SIG_IGN]
    for each in ignored:
        signal.signal(each, lambda *_: None)
    try:
        yield
    finally:
        for each in ignored:
            signal.signal(each, signal.SIG_IGN)
