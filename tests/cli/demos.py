"""Stops a demo, and waits until nothing of it is left."""

import signal
import socket
import subprocess
from contextlib import suppress

from tests.support.waiting import wait_until

STOP_SECONDS = 60


def stop_demo(demo: "subprocess.Popen[bytes]", by: signal.Signals, *ports: int) -> None:
    """Stop a demo by a signal, and wait until its ports are free.

    The signal is sent again until it ends: it may arrive where Python ignores exceptions.
    """
    while demo.poll() is None:
        demo.send_signal(by)
        with suppress(subprocess.TimeoutExpired):
            demo.communicate(timeout=STOP_SECONDS)
    wait_until_free(*ports)


def wait_until_free(*ports: int) -> None:
    """Wait until nobody listens on these ports."""
    wait_until(lambda: not any(map(_is_taken, ports)))


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
