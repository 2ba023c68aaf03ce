"""Fixtures for tests of observation: a server with an admin port on each engine."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ousel.database.addresses import open_database
from tests.observation.observed_server import ObservedServer
from tests.support.accounts import person
from tests.support.engines import ENGINES, Engine, Engines
from tests.support.world import World


@pytest.fixture(scope="package", params=ENGINES)
def observed(
    request: pytest.FixtureRequest, engines: Engines, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ObservedServer]:
    """A sandbox with an admin port and a request log, for all tests of this folder."""
    engine: Engine = request.param
    url = engines.fresh_url(engine, tmp_path_factory.mktemp("observed"))
    asyncio.run(_issue_money(url))
    with ObservedServer(url, OUSEL_RATE_LIMIT="40/hour") as running:
        yield running


@pytest.fixture
async def world(observed: ObservedServer) -> AsyncIterator[World]:
    """The observed server with its database."""
    async with open_database(observed.database_url) as database:
        yield World(observed, database)


@pytest.fixture
def file_url(engines: Engines, tmp_path: Path) -> str:
    """The address of a fresh SQLite database."""
    return engines.fresh_url("sqlite", tmp_path)


async def _issue_money(url: str) -> None:
    """Put some money into the ledger, so that the first scrape finds it there."""
    async with open_database(url) as database:
        await person(database, "somebody", "12.5")
