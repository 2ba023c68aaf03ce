"""The kernel says how long ago the last bytes of a connection arrived."""

import socket
import time

from ousel.http.unread import seconds_unread

WAITED_SECONDS = 0.2


def test_bytes_that_nobody_read_are_as_old_as_they_are() -> None:
    """They count from their arrival."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
        listener.accept()[0] as accepted,
    ):
        started = time.monotonic()
        client.sendall(b"a")
        time.sleep(WAITED_SECONDS)
        waited = seconds_unread(accepted)
        assert WAITED_SECONDS / 2 < waited < time.monotonic() - started + 0.1


def test_a_system_that_does_not_say_it_gives_0() -> None:
    """A socket of another kind has no such information, and neither have some systems."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert seconds_unread(ours) == 0.0
