"""One server and one database for each engine: tests tell themselves apart by names."""

from collections.abc import AsyncIterator, Iterator

import pytest

from ousel.database.port import Database
from tests.oauth.consents import Consent
from tests.portal.visitors import Portal, opened_portal
from tests.support.engines import ENGINES, Engine, Engines
from tests.support.passwords import hash_quickly
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


@pytest.fixture
async def portal(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Portal]:
    """A portal on the same database, in the test's own process."""
    hash_quickly(monkeypatch)
    async with opened_portal(database_url) as opened:
        yield opened


@pytest.fixture
async def consent(database: Database) -> Consent:
    """An app and a person of the test's own."""
    return await Consent.of_new_people(database)
