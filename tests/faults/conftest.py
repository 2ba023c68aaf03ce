"""For tests of faults: the time that each may take, and a PostgreSQL server."""

from collections.abc import Iterator

import pytest

from tests.faults.sizes import TEST_SECONDS_MAX
from tests.support.postgres_server import PostgresServer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test the time that its size needs."""
    for item in items:
        if "tests/faults/" in item.nodeid:
            item.add_marker(pytest.mark.timeout(TEST_SECONDS_MAX))


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for this test alone."""
    with PostgresServer() as running:
        yield running
