"""What waits unread in a socket: how old it is, and whether the client has hung up after it.

A process reads requests late if it was stopped, has too little CPU time, or has only just replaced
another one. If their deadlines began only then, a request could be executed long after its client
had looked and found nothing.
"""

import socket
import sys
from typing import Final

# In Linux's `struct tcp_info`: `tcpi_state`, and `tcpi_last_data_recv`, the milliseconds since the
# last data arrived.
_STATE: Final = slice(0, 1)
_LAST_DATA: Final = slice(52, 56)

_ESTABLISHED: Final = b"\x01"


def seconds_unread(connection: socket.socket) -> float:
    """Return how long ago the last bytes of a connection arrived; 0 if the system does not say."""
    return int.from_bytes(_tcp_info(connection, _LAST_DATA), sys.byteorder) / 1_000


def has_hung_up(connection: socket.socket) -> bool:
    """Return whether the client will send no more; False if the system does not say."""
    return _tcp_info(connection, _STATE) not in {_ESTABLISHED, b""}


def _tcp_info(connection: socket.socket, field: slice) -> bytes:
    """Return a field of what the kernel knows of a connection; empty if it does not say."""
    if sys.platform != "linux":
        return b""
    try:
        return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, field.stop)[field]
    except OSError:
        return b""
