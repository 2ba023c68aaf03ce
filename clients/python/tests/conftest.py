"""What the client's tests share: servers to call, for each module one."""

from collections.abc import Iterator

import pytest

from clients.python.tests.houses import House, furnished
from tests.conftest import engines
from tests.support.engines import ENGINES, Engine, Engines

__all__ = ["engines"]


@pytest.fixture(params=ENGINES, scope="module")
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn: both run the same tests."""
    chosen: Engine = request.param
    return chosen


@pytest.fixture(scope="module")
def live(
    engines: Engines, engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    """A live server for each engine, with a partner, a key and people."""
    with furnished(engines.fresh_url(engine, tmp_path_factory.mktemp("live"))) as house:
        yield house


@pytest.fixture(scope="module")
def sandbox(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A sandbox, with a partner, a key and people."""
    folder = tmp_path_factory.mktemp("sandbox")
    with furnished(engines.fresh_url("sqlite", folder), "--sandbox") as house:
        yield house
