"""What the tests of faults share: a seed that repeats them, figures, and a town to trade in."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.faults.clusters import OwnPostgres
from tests.faults.sizes import SEED, TEST_SECONDS_MAX
from tests.faults.town import Town, founded

Figure = Callable[[str], None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the full sizes the time that they need."""
    for item in items:
        if "tests/faults/" in item.nodeid:
            item.add_marker(pytest.mark.timeout(TEST_SECONDS_MAX))


@pytest.fixture
def chance() -> random.Random:
    """When faults strike: the same for the same OUSEL_FAULTS_SEED."""
    print(f"OUSEL_FAULTS_SEED={SEED}")
    return random.Random(SEED)


@pytest.fixture
def figure(record_property: Callable[[str, Any], None]) -> Figure:
    """Prints a line of figures at the end of all tests."""
    return lambda line: record_property("figure", line)


@pytest.fixture
async def town(database_url: str) -> Town:
    """A town on a fresh database."""
    return await founded(database_url)


@pytest.fixture
def postgres() -> Iterator[OwnPostgres]:
    """A PostgreSQL server for this test alone."""
    with OwnPostgres() as own:
        yield own
