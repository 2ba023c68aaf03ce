"""Connections to PostgreSQL: of several hosts, to the one that takes writes.

All hosts are asked at once, so that one that is dead, or stuck, delays nobody.
"""

import asyncio
import socket
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from ousel.database.hosts import one_host_each, to_primary

if TYPE_CHECKING:
    DriverConnection = asyncpg.Connection[Any]
else:
    DriverConnection = asyncpg.Connection

# How soon a connection ends whose other end has gone without a word: its machine lost power,
# or the network between. Named, since not every system knows each of them.
_LIVENESS: Final = {
    "TCP_KEEPIDLE": 5,
    "TCP_KEEPINTVL": 2,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 10_000,
}


class MonitoredConnection(DriverConnection):
    """A connection that notices within seconds that the host at its other end is gone."""

    def __init__(self, protocol: Any, transport: Any, *rest: Any) -> None:
        """Take the driver's new connection, and watch over its socket."""
        super().__init__(protocol, transport, *rest)
        self._prepared: dict[str, str] = {}
        wire: socket.socket = transport.get_extra_info("socket")
        if wire.family == socket.AF_UNIX:
            return
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _LIVENESS.items():
            if hasattr(socket, name):
                wire.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    async def prepare_once(self, text: str) -> str:
        """Return the name by which EXECUTE knows the statement on this connection."""
        name = self._prepared.get(text)
        if name is None:
            name = f"ousel_{len(self._prepared)}"
            await self.execute(f"PREPARE {name} AS {text}")
            self._prepared[text] = name
        return name


async def connect(dsn: str | None = None, **options: Any) -> DriverConnection:
    """Return a connection to the address: of several hosts, to the one that takes writes."""
    assert dsn is not None, "a pool calls with the address that it was made for"
    options["connection_class"] = MonitoredConnection
    searches: list[asyncio.Future[DriverConnection]] = [
        asyncio.ensure_future(asyncpg.connect(address, **options))
        for address in one_host_each(to_primary(dsn))
    ]
    found: asyncio.Future[DriverConnection] | None = None
    try:
        waiting = set(searches)
        while waiting and found is None:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            found = next((each for each in done if each.exception() is None), None)
    finally:
        await _cancel_searches([each for each in searches if each is not found])
    return (found or searches[0]).result()  # where none was found, what the first host said


async def _cancel_searches(searches: "list[asyncio.Future[DriverConnection]]") -> None:
    """End searches that nobody waits for, and the connections that they found."""
    for search in searches:
        search.cancel()
    for outcome in await asyncio.gather(*searches, return_exceptions=True):
        if isinstance(outcome, asyncpg.Connection):
            outcome.terminate()
