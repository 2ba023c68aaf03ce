"""Connections to the PostgreSQL host that accepts writes, among all hosts of a database URL.

All hosts are tried at the same time, so connecting does not wait for a host that is down or stuck.
"""

import asyncio
import math
import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

import asyncpg
from typing_extensions import override

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

# A primary that has answered within this time cannot have been replaced. While a primary works,
# Patroni renews its leader lock at least every 12 seconds. The lock lasts for 20 seconds, so nobody
# takes over within 8 seconds after the last moment at which the primary worked. This assumes the
# settings of deploy/cluster, and a Patroni that runs as long as its PostgreSQL does.
TRUST_SECONDS: Final = 5.0
ASK_SECONDS_MAX: Final = 3.0  # how long to wait for the answers of all hosts
FIRST_ASK_SECONDS_MAX: Final = 1.0  # the same for a new process, so that commands stay quick

# The number of the server's timeline, from the name of its current WAL file.
_TIMELINE: Final = (
    "SELECT ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int"
)

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


class ClusterConnection(MonitoredConnection):
    """A connection to one of several hosts, which knows when its host was alive."""

    def __init__(self, *arguments: Any) -> None:
        """Start as a connection whose host has not answered yet."""
        super().__init__(*arguments)
        self.timeline = 0
        self.alive_at = 0.0  # when the latest of the answered statements was sent

    @override
    async def fetch(self, query: str, *args: Any, **options: Any) -> Any:
        """Run the statement and return its rows."""
        sent_at = asyncio.get_running_loop().time()
        rows = await super().fetch(query, *args, **options)
        self.alive_at = sent_at
        return rows

    @override
    async def execute(self, query: str, *args: Any, **options: Any) -> str:
        """Run the statement and return what it did."""
        sent_at = asyncio.get_running_loop().time()
        done = await super().execute(query, *args, **options)
        self.alive_at = sent_at
        return done


class Primary:
    """The host of an address that accepts writes, as far as this process knows.

    A host that was replaced, for example while it was frozen, may still answer for a moment, with
    outdated data. The host that takes over begins a new timeline, with a higher number. So a
    process that knows of a timeline uses no lower one. At its first answer, and if the primary has
    not answered for some seconds, the process asks all hosts before it trusts an answer.
    """

    def __init__(self, url: str) -> None:
        """Remember the address; if it names one host, nobody can take over."""
        self._addresses = single_host_urls(primary_url(url))
        self.has_several_hosts = len(self._addresses) > 1
        self._connections: WeakSet[ClusterConnection] = WeakSet()
        self._timeline = 0  # the highest that any host had
        self._trusted_until = -math.inf
        self._asking = asyncio.Lock()

    async def connect(self, **options: Any) -> MonitoredConnection:
        """Return a connection to the first host that accepts one.

        If no host accepts a connection, raise the error of the host that the address names first.
        """
        attempts = self._attempts(options)
        successful: asyncio.Future[MonitoredConnection] | None = None
        try:
            pending = set(attempts)
            while pending and successful is None:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                successful = next((each for each in done if each.exception() is None), None)
        finally:
            await _cancel([each for each in attempts if each is not successful])
        return (successful or attempts[0]).result()

    async def check(self, connection: MonitoredConnection, begun: float) -> None:
        """Raise ConnectionResetError if another host has taken over from the connection's host.

        The work on this connection began at `begun`, by the event loop's clock. If its host was not
        asked anything, there is nothing to check.
        """
        if not isinstance(connection, ClusterConnection) or connection.alive_at < begun:
            return
        if asyncio.get_running_loop().time() > self._trusted_until:
            await self._ask_all_hosts()
        self._check_timeline(connection)
        self._trusted_until = max(self._trusted_until, connection.alive_at + TRUST_SECONDS)

    async def _ask_all_hosts(self) -> None:
        """Learn the highest timeline of the hosts that accept writes and answer soon."""
        async with self._asking:
            begun = asyncio.get_running_loop().time()
            if begun <= self._trusted_until:
                return  # another caller has asked meanwhile
            is_first = self._trusted_until == -math.inf
            seconds_max = FIRST_ASK_SECONDS_MAX if is_first else ASK_SECONDS_MAX
            attempts = self._attempts({"timeout": seconds_max})
            try:
                await asyncio.wait(attempts, timeout=seconds_max)
            finally:
                await _cancel(attempts)
            self._trusted_until = begun + TRUST_SECONDS

    def _attempts(self, options: Mapping[str, Any]) -> "list[asyncio.Future[MonitoredConnection]]":
        return [asyncio.ensure_future(self._connect_to(each, options)) for each in self._addresses]

    async def _connect_to(self, address: str, options: Mapping[str, Any]) -> MonitoredConnection:
        kind = ClusterConnection if self.has_several_hosts else MonitoredConnection
        settings = {"server_settings": {**_ISOLATION, **options.get("server_settings", {})}}
        connection: MonitoredConnection = await asyncpg.connect(
            address, connection_class=kind, **{**options, **settings}
        )
        if isinstance(connection, ClusterConnection):
            try:
                connection.timeline = await connection.fetchval(_TIMELINE)
                self._check_timeline(connection)
            except BaseException:
                connection.terminate()
                raise
            self._use(connection)
        return connection

    def _use(self, connection: ClusterConnection) -> None:
        """End the connections to hosts with a lower timeline."""
        self._timeline = connection.timeline
        for other in list(self._connections):
            if other.timeline < self._timeline:
                other.terminate()
        self._connections.add(connection)

    def _check_timeline(self, connection: ClusterConnection) -> None:
        if connection.timeline < self._timeline:
            raise ConnectionResetError("Another host has taken over.")


async def _cancel(attempts: "list[asyncio.Future[MonitoredConnection]]") -> None:
    """Cancel these attempts, and end the connections that they have opened."""
    for attempt in attempts:
        attempt.cancel()
    for outcome in await asyncio.gather(*attempts, return_exceptions=True):
        if isinstance(outcome, asyncpg.Connection):
            outcome.terminate()
