"""Fixtures for tests on Citus: a cluster, and a distributed database."""

import secrets
from collections.abc import Iterator

import pytest

from ousel.database.schema import distribute, migrate
from tests.faults.sizes import FULL, TEST_SECONDS_MAX
from tests.support.citus_cluster import ABSENT, CitusCluster, is_citus_installed
from tests.support.engines import ENGINES


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip these tests where Citus is not installed, and most of them in the run of all tests."""
    for item in items:
        if "tests/citus/" not in item.nodeid:
            continue
        item.add_marker(pytest.mark.timeout(TEST_SECONDS_MAX))
        if not is_citus_installed():
            item.add_marker(pytest.mark.skip(f"Citus: {ABSENT}"))
        elif not (FULL or ENGINES == ("citus",) or item.path.name == "test_distribution.py"):
            item.add_marker(pytest.mark.skip("'make citus' runs it"))


@pytest.fixture(scope="session")
def cluster() -> Iterator[CitusCluster]:
    """A coordinator and two workers."""
    with CitusCluster("fsync = off") as running:  # no test makes their machine fail
        yield running


@pytest.fixture
async def plain_url(cluster: CitusCluster) -> str:
    """An empty database on the coordinator, which has the extension."""
    return await cluster.create_database(f"ousel_{secrets.token_hex(6)}")


@pytest.fixture
async def database_url(plain_url: str) -> str:
    """A database whose tables are distributed."""
    await migrate(plain_url)
    await distribute(plain_url)
    return plain_url
