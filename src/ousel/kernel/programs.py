"""Programs that Ousel starts, none of which outlives what started it."""

import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress


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
    handlers = {
        number: signal.getsignal(number)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
        if threading.current_thread() is threading.main_thread()
    }
    handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in handlers:
        signal.signal(number, lambda received_number, _: received.append(received_number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for received_number in received:
            signal.raise_signal(received_number)
