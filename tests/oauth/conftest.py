"""The shared server of each engine, and its database: tests tell themselves apart by names."""

from collections.abc import AsyncIterator

import pytest

from ousel.database.port import Database
from tests.oauth.consents import Consent
from tests.support.passwords import hash_quickly
from tests.support.portal import Portal, open_portal
from tests.support.server import Server


@pytest.fixture
def database_url(shared_server: Server) -> str:
    """The address of the shared server's database."""
    return shared_server.database_url


@pytest.fixture
def server(shared_server: Server) -> Server:
    """The shared server."""
    return shared_server


@pytest.fixture
async def portal(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Portal]:
    """A portal on the same database, in the test's own process."""
    hash_quickly(monkeypatch)
    async with open_portal(database_url) as opened:
        yield opened


@pytest.fixture
async def consent(database: Database) -> Consent:
    """An app and a person of the test's own."""
    return await Consent.of_new_people(database)
