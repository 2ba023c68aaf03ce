"""Raw SQL on a connection of its own, as another process or an intruder would run it."""

import re
import sqlite3
from typing import Any, Self

import asyncpg

from ousel.database.addresses import is_postgres, sqlite_path


class RawSql:
    """A second connection to the database; each statement commits at once.

    On SQLite `run` never suspends, so a test can use it during a transaction.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._sqlite: sqlite3.Connection | None = None
        self._postgres: asyncpg.Connection[Any] | None = None

    async def __aenter__(self) -> Self:
        if is_postgres(self._url):
            self._postgres = await asyncpg.connect(self._url)
        else:
            self._sqlite = sqlite3.connect(
                sqlite_path(self._url), isolation_level=None, check_same_thread=False
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._postgres is not None:
            await self._postgres.close()
        if self._sqlite is not None:
            self._sqlite.close()

    async def run(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement with `?` for each value, and return its rows."""
        if self._postgres is not None:
            numbers = iter(range(1, len(values) + 1))
            numbered = re.sub(r"\?", lambda _: f"${next(numbers)}", sql)
            return [tuple(row) for row in await self._postgres.fetch(numbered, *values)]
        assert self._sqlite is not None
        return self._sqlite.execute(sql, values).fetchall()
