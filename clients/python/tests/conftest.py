"""What the client's tests share: servers to call, for each module one."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from clients.python.tests.both import MANNERS, Manner, client_of
from clients.python.tests.houses import House, furnished
from tests.conftest import engines
from tests.support.engines import Engine, Engines

__all__ = ["engines"]


@pytest.fixture(scope="module")
def engine() -> Engine:
    """The default engine; a module for which it matters has both."""
    return "sqlite"


@pytest.fixture(scope="module")
def live(
    engines: Engines, engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    """A live server, with a partner, a key and people."""
    with furnished(engines.fresh_url(engine, tmp_path_factory.mktemp("live"))) as house:
        yield house


@pytest.fixture(scope="module")
def sandbox(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A sandbox, with a partner, a key and people."""
    folder = tmp_path_factory.mktemp("sandbox")
    with furnished(engines.fresh_url("sqlite", folder), "--sandbox") as house:
        yield house


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
