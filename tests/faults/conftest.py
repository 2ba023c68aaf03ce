"""Fixtures for tests of faults: a random seed, figures, a seeded database, a PostgreSQL server."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.faults.sizes import SEED, TEST_SECONDS_MAX
from tests.support.postgres_server import PostgresServer
from tests.support.seeded import SeededDatabase, seed_database

Figure = Callable[[str], None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test the time that its size needs."""
    for item in items:
        if "tests/faults/" in item.nodeid:
            item.add_marker(pytest.mark.timeout(TEST_SECONDS_MAX))


@pytest.fixture
def chance() -> random.Random:
    """Decides when faults occur; the same for the same OUSEL_FAULTS_SEED."""
    print(f"OUSEL_FAULTS_SEED={SEED}")
    return random.Random(SEED)


@pytest.fixture
def figure(record_property: Callable[[str, Any], None]) -> Figure:
    """Prints a line of figures at the end of all tests."""
    return lambda line: record_property("figure", line)


@pytest.fixture
async def seeded(database_url: str) -> SeededDatabase:
    """A fresh database with a partner and people."""
    return await seed_database(database_url)


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for this test alone."""
    with PostgresServer() as running:
        yield running
