"""A server that echoes, a client of it, and the time by which the server closes connections."""

from collections.abc import AsyncIterator

import pytest

from tests.http.echo_server import EchoClient, EchoServer
from tests.support.loop_time import LoopTime


@pytest.fixture
async def echo_server() -> AsyncIterator[EchoServer]:
    """A server that echoes, inside the test's process."""
    server = EchoServer()
    async with server.running():
        yield server


@pytest.fixture
async def client(echo_server: EchoServer) -> AsyncIterator[EchoClient]:
    """A client that is connected to it."""
    async with echo_server.connect() as connected:
        yield connected


@pytest.fixture
async def loop_time() -> LoopTime:
    """The time of the event loop, by which the server closes connections."""
    return LoopTime()
