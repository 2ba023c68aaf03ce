"""How long requests waited unread in their sockets.

A process reads requests late if it was stopped, has too little CPU time, or has only just replaced
another one. If their deadlines began only then, a request could be executed long after its client
had looked and found nothing.
"""

import socket
import sys
from typing import Final

# In Linux's `struct tcp_info`: `tcpi_last_data_recv`, the milliseconds since the last data arrived.
_LAST_DATA: Final = slice(52, 56)


def seconds_unread(connection: socket.socket) -> float:
    """Return how long ago the last bytes of a connection arrived; 0 if the system does not say."""
    if sys.platform != "linux":
        return 0.0
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_DATA.stop)
    except OSError:
        return 0.0
    return int.from_bytes(info[_LAST_DATA], sys.byteorder) / 1_000
