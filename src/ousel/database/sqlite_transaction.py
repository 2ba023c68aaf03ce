"""A transaction on SQLite: how statements are compiled and run."""

import sqlite3
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from ousel.database.port import Row
from ousel.database.statements import CompiledStatement, Statement, Table, for_sqlite

STATEMENTS_CACHED: Final = 256


class SqliteTransaction:
    """Statements on one connection; its coroutines never suspend."""

    def __init__(
        self, connection: sqlite3.Connection, *, follows_unknown_commit: bool = False
    ) -> None:
        """Run statements on this connection, in the transaction that is open there."""
        self._connection = connection
        self.follows_unknown_commit = follows_unknown_commit

    async def fetch(self, statement: Statement, **parameters: object) -> list[Row]:
        """Run the statement and return all its rows."""
        compiled = _compiled(statement)
        return self._connection.execute(compiled.text, compiled.arguments(parameters)).fetchall()

    async def execute(self, statement: Statement, **parameters: object) -> int:
        """Run the statement and return how many rows it touched."""
        compiled = _compiled(statement)
        return self._connection.execute(compiled.text, compiled.arguments(parameters)).rowcount

    async def insert(self, table: Table, rows: Iterable[Sequence[object]]) -> None:
        """Insert all rows at once."""
        self._connection.executemany(_insert(table), rows)

    async def update(self, table: Table, rows: Iterable[Sequence[object]]) -> None:
        """Update all rows at once: find each by its key, and write its other columns."""
        self._connection.executemany(_update(table), rows)


@lru_cache(maxsize=STATEMENTS_CACHED)
def _compiled(statement: Statement) -> CompiledStatement:
    return for_sqlite(statement)


@lru_cache(maxsize=STATEMENTS_CACHED)
def _insert(table: Table) -> str:
    marks = ", ".join("?" for _ in table.names)
    return f"INSERT INTO {table.name} ({', '.join(table.names)}) VALUES ({marks})"


@lru_cache(maxsize=STATEMENTS_CACHED)
def _update(table: Table) -> str:
    assignments = {name: f"{name} = ?{number}" for number, name in enumerate(table.names, 1)}
    changes = ", ".join(assignments[name] for name in table.column_names)
    condition = " AND ".join(assignments[name] for name in table.key_names)
    return f"UPDATE {table.name} SET {changes} WHERE {condition}"
