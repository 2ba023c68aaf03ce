"""A server that echoes, and a client of it."""

from collections.abc import AsyncIterator

import pytest

from tests.http.echo_server import EchoClient, EchoServer


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
