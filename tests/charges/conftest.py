"""One server and one database for each engine and module; each test uses accounts of its own.

The clocks of these tests run ahead, and so do the times in the ledger. Tests of other packages must
therefore not share the databases.
"""

from collections.abc import AsyncIterator, Iterator

import pytest

from ousel.database.port import Database
from tests.charges.shops import Shop, open_shop
from tests.charges.tills import Till, open_till
from tests.support.clock import ManualClock
from tests.support.engines import ENGINES, Engine, Engines
from tests.support.passwords import hash_quickly
from tests.support.portal import open_portal
from tests.support.server import Server


@pytest.fixture(params=ENGINES, scope="module")
def engine(request: pytest.FixtureRequest) -> Engine:
    """Return each engine in turn: both run the same tests."""
    chosen: Engine = request.param
    return chosen


@pytest.fixture(scope="module")
def database_url(engines: Engines, engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the address of a new database with the current schema."""
    return engines.fresh_url(engine, tmp_path_factory.mktemp("charges"))


@pytest.fixture(scope="module")
def server(database_url: str) -> Iterator[Server]:
    """Run a server process on the same database."""
    with Server(database_url) as running:
        yield running


@pytest.fixture
async def shop(database: Database) -> Shop:
    """Return a new shop for each test; its clock stands still."""
    return await open_shop(database, ManualClock())


@pytest.fixture
async def till(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Till]:
    """Open a shop and a portal whose clock stands still."""
    hash_quickly(monkeypatch)
    async with open_portal(database_url) as portal:
        yield await open_till(portal)
