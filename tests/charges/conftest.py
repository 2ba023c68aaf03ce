"""The shared server of each engine, and its database: tests tell themselves apart by names."""

from collections.abc import AsyncIterator

import pytest

from ousel.database.port import Database
from tests.charges.shops import Shop, open_shop
from tests.charges.tills import Till, open_till
from tests.portal.visitors import opened_portal
from tests.support.clocks import ManualClock
from tests.support.engines import Engine
from tests.support.passwords import hash_quickly
from tests.support.servers import Server


@pytest.fixture
def database_url(shared_server: tuple[Server, str, Engine]) -> str:
    """The address of the shared server's database."""
    return shared_server[1]


@pytest.fixture
def server(shared_server: tuple[Server, str, Engine]) -> Server:
    """The shared server."""
    return shared_server[0]


@pytest.fixture
async def shop(database: Database) -> Shop:
    """A shop of its own for each test, on a clock that stands still."""
    return await open_shop(database, ManualClock())


@pytest.fixture
async def till(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Till]:
    """A shop and a portal on a clock that stands still."""
    hash_quickly(monkeypatch)
    async with opened_portal(database_url) as portal:
        yield await open_till(portal)
