"""The shared server of each engine and its database; each test uses names of its own."""

import pytest

from ousel.database.port import Database
from tests.oauth.consents import Consent
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
async def consent(database: Database) -> Consent:
    """An app and a person of the test's own."""
    return await Consent.of_new_people(database)
