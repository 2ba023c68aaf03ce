"""The pool never has more connections than places, and never loses a place."""

import asyncio
import socket
from contextvars import ContextVar
from typing import Literal, cast

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ousel.database.pool import ConnectionPool
from ousel.database.primary import MonitoredConnection
from tests.support.waiting import until

SIZE = 2
End = Literal["released", "ended", "abandoned"]


class Caller(msgspec.Struct, frozen=True):
    """What one caller does, counted in turns of the event loop."""

    starts_after: int
    connect_turns: int
    connect_fails: bool
    uses_turns: int
    end: End
    canceled_after: int | None


PATIENT = Caller(0, 0, connect_fails=False, uses_turns=0, end="released", canceled_after=None)


class FakeConnection:
    """A connection to a server that ends abandoned connections when told to."""

    def __init__(self, network: "Network") -> None:
        self._network = network
        self._closed = False

    def is_closed(self) -> bool:
        """Return whether it has ended on this side."""
        return self._closed

    def terminate(self) -> None:
        """End it on both sides."""
        if not self._closed:
            self._closed = True
            self._network.open -= 1

    def detach(self) -> socket.socket | None:
        """End it on this side alone."""
        if self._closed:
            return None
        self._closed = True
        ours, theirs = socket.socketpair()
        ours.settimeout(0)
        self._network.abandoned.append(theirs)
        return ours


class Network:
    """Counts the connections that the server has."""

    def __init__(self) -> None:
        self.caller: ContextVar[Caller] = ContextVar("caller", default=PATIENT)
        self.open = 0
        self.open_max = 0
        self.abandoned: list[socket.socket] = []

    async def connect(self) -> MonitoredConnection:
        """Open a connection as the current caller's plan says."""
        caller = self.caller.get()
        await turns(caller.connect_turns)
        if caller.connect_fails:
            raise ConnectionRefusedError
        self.open += 1
        self.open_max = max(self.open_max, self.open)
        return cast("MonitoredConnection", FakeConnection(self))

    def end_abandoned(self) -> None:
        """End all abandoned connections on the server's side."""
        for theirs in self.abandoned:
            self.open -= 1
            theirs.close()
        self.abandoned.clear()


async def turns(number: int) -> None:
    """Let the event loop run this many times."""
    for _ in range(number):
        await asyncio.sleep(0)


async def use(pool: ConnectionPool, network: Network, caller: Caller) -> None:
    """Do what this caller does."""
    network.caller.set(caller)
    await turns(caller.starts_after)
    connection = await pool.acquire()
    try:
        assert not connection.is_closed()
        await turns(caller.uses_turns)
    finally:
        if caller.end == "ended":
            connection.terminate()
        elif caller.end == "abandoned":
            pool.abandon(connection)
        pool.release(connection)


async def run(callers: list[Caller]) -> int:
    """Let the callers use one pool, then use all its places; return the most connections."""
    network = Network()
    pool = ConnectionPool(network.connect, SIZE)
    tasks = [asyncio.create_task(use(pool, network, caller)) for caller in callers]
    cancellations = [
        asyncio.create_task(cancel_later(task, caller.canceled_after))
        for task, caller in zip(tasks, callers, strict=True)
        if caller.canceled_after is not None
    ]
    async with asyncio.timeout(20):
        while not all(task.done() for task in tasks):
            network.end_abandoned()
            await asyncio.sleep(0)
        await asyncio.gather(*tasks, *cancellations, return_exceptions=True)
        network.end_abandoned()
        await until(lambda: not pool.abandoned())
        all_places = [await pool.acquire() for _ in range(SIZE)]
    assert pool.counts().in_use == SIZE
    for connection in all_places:
        pool.release(connection)
    pool.terminate()
    assert network.open == 0
    for task in tasks:
        error = None if task.cancelled() else task.exception()
        assert error is None or isinstance(error, ConnectionRefusedError), error
    return network.open_max


async def cancel_later(task: asyncio.Task[None], after: int) -> None:
    """Cancel a caller after this many turns."""
    await turns(after)
    task.cancel()


@given(
    st.lists(
        st.builds(
            Caller,
            starts_after=st.integers(0, 5),
            connect_turns=st.integers(0, 3),
            connect_fails=st.booleans(),
            uses_turns=st.integers(0, 4),
            end=st.sampled_from(["released", "ended", "abandoned"]),
            canceled_after=st.none() | st.integers(0, 10),
        ),
        max_size=12,
    )
)
def test_places_are_neither_lost_nor_doubled(callers: list[Caller]) -> None:
    """Whoever fails, is canceled or abandons a connection: all places can be used afterwards."""
    assert asyncio.run(run(callers)) <= SIZE
