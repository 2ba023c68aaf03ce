"""Fixtures for the client's tests: servers to call, and both kinds of client."""

from collections.abc import AsyncIterator, Callable
from functools import cache
from typing import Any

import pytest

from clients.python.tests.client_kinds import CLIENT_KINDS, ClientKind, client_of
from tests.conftest import engines, shared_servers
from tests.support.engines import Engine
from tests.support.seeded import SeededServer, seed_server
from tests.support.server import SharedServers

__all__ = ["engines", "shared_servers"]

SeededServers = Callable[..., SeededServer]


@pytest.fixture(scope="session")
def seeded_servers(shared_servers: SharedServers) -> SeededServers:
    """Servers with a partner and people, one for each engine and mode, which the tests share."""
    return cache(lambda engine, *options: seed_server(shared_servers.on(engine, *options)))


@pytest.fixture
def engine() -> Engine:
    """The default engine. Modules whose tests depend on the engine override it, and run both."""
    return "sqlite"


@pytest.fixture
def live(seeded_servers: SeededServers, engine: Engine) -> SeededServer:
    """A live server, with a partner, a key and people."""
    return seeded_servers(engine)


@pytest.fixture
def sandbox(seeded_servers: SeededServers) -> SeededServer:
    """A sandbox, with a partner, a key and people."""
    return seeded_servers("sqlite", "--sandbox")


@pytest.fixture(params=CLIENT_KINDS)
def client_kind(request: pytest.FixtureRequest) -> ClientKind:
    """Both kinds of client in turn."""
    chosen: ClientKind = request.param
    return chosen


@pytest.fixture
async def client(live: SeededServer, client_kind: ClientKind) -> AsyncIterator[Any]:
    """A client of the live server."""
    async with client_of(client_kind, live.key, live.base_url) as opened:
        yield opened


@pytest.fixture
async def tester(sandbox: SeededServer, client_kind: ClientKind) -> AsyncIterator[Any]:
    """A client of the sandbox."""
    async with client_of(client_kind, sandbox.key, sandbox.base_url) as opened:
        yield opened
