"""One server and one database for each engine; each test uses accounts of its own.

The clocks of these tests run ahead, and so do the times in the ledger. Tests of other packages must
therefore not share the databases.
"""

from collections.abc import Iterator

import pytest

from ousel.database.port import Database
from tests.charges.portal_shop import PortalShop, open_portal_shop
from tests.support.clock import ManualClock
from tests.support.engines import ENGINES, Engine, Engines
from tests.support.portal import Portal
from tests.support.server import Server
from tests.support.shop import Shop, open_shop


@pytest.fixture(params=ENGINES, scope="package")
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn: both run the same tests."""
    chosen: Engine = request.param
    return chosen


@pytest.fixture(scope="package")
def database_url(engines: Engines, engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a new database with the current schema."""
    return engines.fresh_url(engine, tmp_path_factory.mktemp("charges"))


@pytest.fixture(scope="package")
def server(database_url: str) -> Iterator[Server]:
    """Run a server process on the same database."""
    with Server(database_url) as running:
        yield running


@pytest.fixture
async def shop(database: Database, clock: ManualClock) -> Shop:
    """Return a new shop for each test; its clock stands still."""
    return await open_shop(database, clock)


@pytest.fixture
async def portal_shop(portal: Portal) -> PortalShop:
    """Return a new shop with a portal; their clock stands still."""
    return await open_portal_shop(portal)
