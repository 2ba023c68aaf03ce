"""A pool of connections to PostgreSQL, in which an abandoned commit still counts as a connection.

The driver's own pool opens another connection as soon as one is closed on this side. While commits
hang in the server, that would add one server process after the other, until the server refuses all
connections.
"""

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from ousel.database.port import Connections
from ousel.database.primary import MonitoredConnection
from ousel.kernel.futures import fail_gradually

ACQUIRE_TIMEOUT_SECONDS: Final = 10.0
READ_BYTES: Final = 65_536


class ConnectionPool:
    """At most `size` connections, each used by one caller at a time."""

    def __init__(self, connect: Callable[[], Awaitable[MonitoredConnection]], size: int) -> None:
        """Open connections with `connect`, when they are first needed."""
        self._connect = connect
        self._vacant = size  # places without a connection
        self._connections: set[MonitoredConnection] = set()
        self._idle: list[MonitoredConnection] = []
        self._waiters: deque[asyncio.Future[MonitoredConnection | None]] = deque()
        self._abandoned: set[socket.socket] = set()

    async def acquire(self) -> MonitoredConnection:
        """Return an idle connection, a new one, or the next one that is released."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
            self._connections.discard(connection)
            self._vacant += 1
        if self._vacant:
            self._vacant -= 1
            return await self._open()
        released = await self._wait()
        if released is None:
            return await self._open()
        if released.is_closed():
            self._connections.discard(released)
            return await self._open()
        return released

    def release(self, connection: MonitoredConnection) -> None:
        """Take a connection back; its place becomes vacant if it has ended."""
        if not connection.is_closed():
            self._hand_on(connection)
        elif connection in self._connections:
            self._connections.discard(connection)
            self._hand_on(None)

    def abandon(self, connection: MonitoredConnection) -> None:
        """End a connection on this side; its place stays taken until the server ends it as well."""
        abandoned_socket = connection.detach()
        if abandoned_socket is not None:
            self._connections.discard(connection)
            self._abandoned.add(abandoned_socket)
            asyncio.get_running_loop().add_reader(
                abandoned_socket, self._read_abandoned, abandoned_socket
            )

    def abandoned(self) -> Collection[socket.socket]:
        """Return the abandoned connections that the server has not ended yet."""
        return frozenset(self._abandoned)

    def forget(self, abandoned: Collection[socket.socket]) -> None:
        """Make the places of these abandoned connections vacant without waiting any longer."""
        for abandoned_socket in self._abandoned.intersection(abandoned):
            self._abandoned.discard(abandoned_socket)
            asyncio.get_running_loop().remove_reader(abandoned_socket)
            abandoned_socket.close()
            self._hand_on(None)

    def refuse_waiters(self, refusal: Exception) -> None:
        """Let everyone who waits for a connection fail with this refusal."""
        fail_gradually(list(self._waiters), refusal)
        self._waiters.clear()

    def counts(self) -> Connections:
        """Return how many connections are in use, idle and abandoned."""
        idle = len(self._idle)
        return Connections(
            in_use=len(self._connections) - idle, idle=idle, abandoned_commits=len(self._abandoned)
        )

    def terminate(self) -> None:
        """End every connection at once."""
        self.forget(self.abandoned())
        for connection in self._connections:
            connection.terminate()
        self._connections.clear()
        self._idle.clear()

    async def _open(self) -> MonitoredConnection:
        """Open a connection, for which the caller has already taken a place."""
        try:
            connection = await self._connect()
        except BaseException:
            self._hand_on(None)
            raise
        self._connections.add(connection)
        return connection

    async def _wait(self) -> MonitoredConnection | None:
        """Return the next released connection, or None if a place has become vacant."""
        waiter: asyncio.Future[MonitoredConnection | None] = (
            asyncio.get_running_loop().create_future()
        )
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(ACQUIRE_TIMEOUT_SECONDS):
                return await waiter
        except BaseException:
            if waiter.cancelled():
                with contextlib.suppress(ValueError):
                    self._waiters.remove(waiter)
            elif waiter.exception() is None:
                self._hand_on(waiter.result())  # it came too late for this caller
            raise

    def _hand_on(self, connection: MonitoredConnection | None) -> None:
        """Give a connection, or a vacant place, to whoever has waited longest."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        if connection is None:
            self._vacant += 1
        else:
            self._idle.append(connection)

    def _read_abandoned(self, abandoned_socket: socket.socket) -> None:
        """Once the server has answered, ask it to end the connection.

        Once it has ended the connection, make the place vacant.
        """
        try:
            if abandoned_socket.recv(READ_BYTES):
                abandoned_socket.shutdown(socket.SHUT_WR)
                return
        except BlockingIOError:
            return
        except OSError:
            pass  # the connection broke, so the server is gone or ends its side as well
        self.forget({abandoned_socket})
