"""Connections to the PostgreSQL host that accepts writes, among all hosts of an address.

All hosts are tried at the same time, so a host that is down or stuck causes no delay.
"""

import asyncio
import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from ousel.database.hosts import primary_url, single_host_urls

if TYPE_CHECKING:
    DriverConnection = asyncpg.Connection[Any]
else:
    DriverConnection = asyncpg.Connection

# These options end a connection soon after the server's host or the network has failed. They are
# looked up by name, since not every system has all of them.
_KEEPALIVE_OPTIONS: Final = {
    "TCP_KEEPIDLE": 5,
    "TCP_KEEPINTVL": 2,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 10_000,
}

# Ousel's transactions need this level: after a wait for a lock they read what was committed
# meanwhile. A server, a database or a role may have another default.
_ISOLATION: Final = {"default_transaction_isolation": "read committed"}

# The messages Parse, Bind and Execute for the statement BEGIN: a letter, the length, the content.
# No Sync follows, so the server answers them together with the next statement.
_BEGIN: Final = b"".join(
    (
        *(b"P", b"\0\0\0\x0d", b"\0BEGIN\0\0\0"),
        *(b"B", b"\0\0\0\x0c", b"\0\0\0\0\0\0\0\0"),
        *(b"E", b"\0\0\0\x09", b"\0\0\0\0\0"),
    )
)


class MonitoredConnection(DriverConnection):
    """A connection that ends within seconds after its server has become unreachable."""

    def __init__(self, protocol: Any, transport: Any, *rest: Any) -> None:
        """Set the keepalive options on the socket of the driver's new connection."""
        super().__init__(protocol, transport, *rest)
        self._prepared: dict[str, str] = {}
        self._socket_transport: asyncio.Transport = transport
        connected: socket.socket = transport.get_extra_info("socket")
        if connected.family == socket.AF_UNIX:
            return
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE_OPTIONS.items():
            if hasattr(socket, name):
                connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def begin(self) -> None:
        """Begin a transaction without a round trip of its own; a `fetch` must follow at once.

        The driver does not know of this BEGIN. It skips the answer to it, which arrives with the
        answer to the `fetch`. If BEGIN fails, the driver reports this as the error of the `fetch`.
        """
        if not self._socket_transport.is_closing():
            self._socket_transport.write(_BEGIN)

    async def prepare_once(self, text: str) -> str:
        """Prepare the statement once on this connection; return its name for EXECUTE."""
        name = self._prepared.get(text)
        if name is None:
            name = f"ousel_{len(self._prepared)}"
            await self.execute(f"PREPARE {name} AS {text}")
            self._prepared[text] = name
        return name

    def detach(self) -> socket.socket | None:
        """End this connection for the driver, and return its socket, which stays open.

        The server notices nothing, and continues what it is doing. Return None if the connection
        has ended already.
        """
        detached = None
        if not self.is_closed() and not self._socket_transport.is_closing():
            connected = self._socket_transport.get_extra_info("socket")
            detached = socket.socket(fileno=os.dup(connected.fileno()))
            detached.settimeout(0)  # reading from it never blocks
        self.terminate()
        return detached


async def connect(
    dsn: str, *, server_settings: Mapping[str, str] | None = None, **options: Any
) -> MonitoredConnection:
    """Return a connection to the host of this address that accepts writes.

    If no host accepts a connection, raise the error of the first one.
    """
    options["connection_class"] = MonitoredConnection
    options["server_settings"] = {**_ISOLATION, **(server_settings or {})}
    attempts: list[asyncio.Future[MonitoredConnection]] = [
        asyncio.ensure_future(asyncpg.connect(address, **options))
        for address in single_host_urls(primary_url(dsn))
    ]
    successful: asyncio.Future[MonitoredConnection] | None = None
    try:
        pending = set(attempts)
        while pending and successful is None:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            successful = next((each for each in done if each.exception() is None), None)
    finally:
        await _cancel([each for each in attempts if each is not successful])
    return (successful or attempts[0]).result()


async def _cancel(attempts: "list[asyncio.Future[MonitoredConnection]]") -> None:
    """Cancel the other attempts, and end the connections that they have opened."""
    for attempt in attempts:
        attempt.cancel()
    for outcome in await asyncio.gather(*attempts, return_exceptions=True):
        if isinstance(outcome, asyncpg.Connection):
            outcome.terminate()
