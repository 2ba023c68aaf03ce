"""Fixtures for folders whose tests share one database for each engine."""

import pytest

from tests.support.engines import ENGINES, Engine, Engines

__all__ = ["database_url", "engine"]


@pytest.fixture(params=ENGINES, scope="package")
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn: both run the same tests."""
    chosen: Engine = request.param
    return chosen


@pytest.fixture(scope="package")
def database_url(engines: Engines, engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a new database with the current schema."""
    return engines.fresh_url(engine, tmp_path_factory.mktemp("folder"))
