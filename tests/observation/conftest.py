"""What the tests of observation share: a watched server on each engine."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.observation.posts import Post
from tests.support.accounts import open_database, person
from tests.support.engines import ENGINES, Engine, Engines
from tests.support.servers import Server, free_port


@pytest.fixture(scope="package", params=ENGINES)
def post(
    request: pytest.FixtureRequest, engines: Engines, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Post]:
    """A sandbox with an admin port and a request log, for all tests of this folder."""
    engine: Engine = request.param
    url = engines.fresh_url(engine, tmp_path_factory.mktemp("post"))
    asyncio.run(_furnished(url))
    port = free_port()
    options = ("--sandbox", "--admin-port", str(port))
    with Server(url, *options, OUSEL_RATE_LIMIT="40/hour") as running:
        yield Post(running, url, f"http://127.0.0.1:{port}")


@pytest.fixture
def file_url(engines: Engines, tmp_path: Path) -> str:
    """The address of a fresh SQLite database."""
    return engines.fresh_url("sqlite", tmp_path)


async def _furnished(url: str) -> None:
    """Put some money into the books, so that the first scrape finds it there."""
    async with open_database(url) as database:
        await person(database, "furnished", "12.5")
