"""The shared server of each engine, and its database: tests tell themselves apart by names."""

from collections.abc import AsyncIterator

import pytest

from ousel.database.port import Database
from tests.charges.shops import Shop, open_shop
from tests.charges.tills import Till, open_till
from tests.portal.visitors import opened_portal
from tests.support.clocks import ManualClock
from tests.support.passwords import hash_quickly
from tests.support.shared import database_url, server

__all__ = ["database_url", "server"]


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
