"""What the tests share: both engines, and open databases on them."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from ousel.database.addresses import database_at
from ousel.database.port import Database
from tests.support.engines import ENGINES, Engine, Engines
from tests.support.servers import Server

settings.register_profile("ousel", deadline=None)  # a busy machine is no defect
settings.load_profile("ousel")


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Engines:
    """Makes fresh databases."""
    return Engines(tmp_path_factory.mktemp("engines"))


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn: both run the same tests."""
    chosen: Engine = request.param
    return chosen


@pytest.fixture
def database_url(engines: Engines, engine: Engine, tmp_path: Path) -> str:
    """The address of a fresh database with today's schema."""
    return engines.fresh_url(engine, tmp_path)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A fresh database, open."""
    opened = database_at(database_url)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def server(database_url: str) -> Iterator[Server]:
    """A server process on the same fresh database."""
    with Server(database_url) as running:
        yield running
