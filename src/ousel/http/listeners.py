"""Sockets that listen for connections."""

import socket


def listen(host: str, port: int, waiting_max: int) -> socket.socket:
    """Return a socket that listens on this address, or raise OSError.

    It listens at once: two processes may bind the same port as long as neither listens.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(waiting_max)
    except OSError:
        listener.close()
        raise
    return listener
