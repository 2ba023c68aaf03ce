"""The kernel says how long ago the last bytes of a connection arrived, and whether it ended."""

import socket
import time

from ousel.http.unread import has_hung_up, seconds_unread
from tests.support.waiting import wait_until

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


def test_a_hang_up_shows_before_all_is_read() -> None:
    """The bytes before it need not be read first."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
        listener.accept()[0] as accepted,
    ):
        client.sendall(b"a")
        assert not has_hung_up(accepted)
        client.shutdown(socket.SHUT_WR)
        wait_until(lambda: has_hung_up(accepted))
        assert accepted.recv(1) == b"a"


def test_a_system_that_does_not_say_it_gives_0_and_no_hang_up() -> None:
    """A socket of another kind has no such information, and neither have some systems."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert seconds_unread(ours) == 0.0
        assert not has_hung_up(ours)
