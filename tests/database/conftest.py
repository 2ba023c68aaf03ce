"""Databases of a single engine, for tests of what only that engine does."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ousel.database.postgres import PostgresDatabase
from ousel.database.sqlite import SqliteDatabase
from tests.support.engines import Engines
from tests.support.postgres_proxy import PostgresProxy


@pytest.fixture
async def postgres(postgres_url: str) -> AsyncIterator[PostgresDatabase]:
    """A fresh PostgreSQL database, open."""
    opened = PostgresDatabase(postgres_url)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def proxied(proxy: PostgresProxy) -> AsyncIterator[PostgresDatabase]:
    """A fresh PostgreSQL database, open, and connected through the proxy."""
    opened = PostgresDatabase(proxy.url)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def sqlite_file(engines: Engines, tmp_path: Path) -> Path:
    """A fresh SQLite database."""
    return Path(engines.fresh_url("sqlite", tmp_path))


@pytest.fixture
async def sqlite(sqlite_file: Path) -> AsyncIterator[SqliteDatabase]:
    """A fresh SQLite database, open."""
    opened = SqliteDatabase(sqlite_file)
    await opened.open()
    yield opened
    await opened.close()
