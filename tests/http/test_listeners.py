"""Sockets that listen for connections."""

import pytest

from ousel.http.listeners import listen


def test_only_one_socket_listens_on_a_port() -> None:
    """The second is refused even if the first has not accepted a connection yet."""
    with listen("127.0.0.1", 0, waiting_max=1) as first:
        port = first.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            listen("127.0.0.1", port, waiting_max=1)
