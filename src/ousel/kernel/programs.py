"""Programs that Ousel starts, and ends when it no longer needs them."""

import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress


@contextmanager
def program(
    command: list[str],
    environment: Mapping[str, str] | None = None,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a program; if it still runs when the block ends, kill it."""
    process: subprocess.Popen[bytes] | None = None
    try:
        with _signals_deferred():
            process = subprocess.Popen(  # noqa: S603 - a program of ours or of the database
                command, env=environment, stdin=stdin, stdout=stdout, stderr=stderr
            )
        yield process
    finally:
        if process is not None:
            process.kill()
            with suppress(OSError), process:  # it no longer matters what could not be sent
                pass


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Handle signals after the block, so that none is handled while a process is being started.

    A handler that raises just then would leave a process that nothing stops.
    """
    received: list[int] = []
    with ExitStack() as stack:  # if a handler that is back raises, the others come back too
        stack.callback(_raise_again, received)
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
                handler = signal.getsignal(number)
                if callable(handler):
                    stack.callback(signal.signal, number, handler)
                    signal.signal(number, lambda each, _: received.append(each))
        yield


def _raise_again(received: list[int]) -> None:
    for number in received:
        signal.raise_signal(number)
