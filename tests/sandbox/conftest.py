"""One sandbox server for each engine and module; tests of a module move its clock forward."""

from collections.abc import Iterator

import pytest

from tests.support.engines import ENGINES, Engine, Engines
from tests.support.server import Server


@pytest.fixture(params=ENGINES, scope="module")
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn: both run the same tests."""
    chosen: Engine = request.param
    return chosen


@pytest.fixture(scope="module")
def database_url(engines: Engines, engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a new database with the current schema."""
    return engines.fresh_url(engine, tmp_path_factory.mktemp("sandbox"))


@pytest.fixture(scope="module")
def server(database_url: str) -> Iterator[Server]:
    """A sandbox on the same database."""
    with Server(database_url, "--sandbox") as running:
        yield running
