"""One server and one database for each engine: tests tell themselves apart by names."""

from collections.abc import Iterator

import pytest

from tests.support.engines import ENGINES, Engine, Engines
from tests.support.servers import Server


@pytest.fixture(params=ENGINES, scope="session")
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn: both run the same tests."""
    chosen: Engine = request.param
    return chosen


@pytest.fixture(scope="session")
def database_url(engines: Engines, engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a fresh database with today's schema."""
    return engines.fresh_url(engine, tmp_path_factory.mktemp("oauth"))


@pytest.fixture(scope="session")
def server(database_url: str) -> Iterator[Server]:
    """A server process on the same database."""
    with Server(database_url) as running:
        yield running
