"""Ports for the servers of tests."""

import secrets
import socket
from contextlib import suppress


def free_port() -> int:
    """Return the first of two adjacent ports that nothing listens on, and that no other test gets.

    The ports are outside the range of clients' ports: a client that keeps trying such a port, while
    its server is down, connects to itself in the end. They are above 10080, which browsers refuse.
    """
    while True:
        port = 10_100 + 2 * secrets.randbelow(4_950)
        with (
            suppress(OSError),
            socket.socket() as one,
            socket.socket() as next_one,
            socket.socket(socket.AF_UNIX) as reservation,
        ):
            one.bind(("127.0.0.1", port))
            next_one.bind(("127.0.0.1", port + 1))
            reservation.bind(f"\0ousel-tests-port-{port}")  # fails if any process has bound it
            reservation.detach()  # it stays open until this process ends
            return port
