"""What the client's tests share: servers to call, for each module one."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from clients.python.tests.both import MANNERS, Manner, client_of
from clients.python.tests.houses import House, Street
from tests.conftest import engines
from tests.support.engines import Engine, Engines

__all__ = ["engines"]


@pytest.fixture(scope="session")
def street(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Street]:
    """Servers that run for as long as the tests do: tests tell themselves apart by names."""
    with ExitStack() as stack:
        yield Street(engines, tmp_path_factory.mktemp("street"), stack)


@pytest.fixture
def engine() -> Engine:
    """The default engine; a module for which it matters has both."""
    return "sqlite"


@pytest.fixture
def live(street: Street, engine: Engine) -> House:
    """A live server, with a partner, a key and people."""
    return street.house(engine)


@pytest.fixture
def sandbox(street: Street) -> House:
    """A sandbox, with a partner, a key and people."""
    return street.house("sqlite", "--sandbox")


@pytest.fixture(params=MANNERS)
def manner(request: pytest.FixtureRequest) -> Manner:
    """Both kinds of client in turn."""
    chosen: Manner = request.param
    return chosen


@pytest.fixture
async def client(live: House, manner: Manner) -> AsyncIterator[Any]:
    """A client of the live server."""
    async with client_of(manner, live.key, live.base_url) as opened:
        yield opened


@pytest.fixture
async def tester(sandbox: House, manner: Manner) -> AsyncIterator[Any]:
    """A client of the sandbox."""
    async with client_of(manner, sandbox.key, sandbox.base_url) as opened:
        yield opened
