"""A transaction on PostgreSQL: how statements are compiled, and which of them are sent together."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ousel.database.port import Row
from ousel.database.statements import (
    CompiledStatement,
    Statement,
    Table,
    bulk_insert,
    bulk_update,
    for_postgres,
)

if TYPE_CHECKING:
    from ousel.database.primary import MonitoredConnection

BEGIN: Final = "BEGIN"
STATEMENTS_CACHED: Final = 256


class PostgresTransaction:
    """Statements on one connection.

    BEGIN and bulk writes return nothing, so they are kept back until another statement or the
    commit is sent. If all recipients are cached, a batch of postings takes two round trips: begin
    and lock; write and commit.
    """

    def __init__(
        self,
        connection: "MonitoredConnection",
        *unsent: str,
        follows_unknown_commit: bool = False,
    ) -> None:
        """Run statements on this connection, and send the unsent ones before them."""
        self._connection = connection
        self.follows_unknown_commit = follows_unknown_commit
        self._unsent = list(unsent)

    @property
    def has_begun(self) -> bool:
        """Whether BEGIN was sent."""
        return BEGIN not in self._unsent

    async def send(self, *statements: str) -> None:
        """Send the unsent statements, followed by these."""
        texts, self._unsent = [*self._unsent, *statements], []
        await self._connection.execute("; ".join(texts))

    async def fetch(self, statement: Statement, **parameters: object) -> list[Row]:
        """Run the statement and return all its rows."""
        compiled = _compiled(statement)
        arguments = compiled.arguments(parameters)
        if self._unsent == [BEGIN]:
            self._unsent.clear()
            self._connection.begin()
        elif self._unsent:
            await self.send()
        rows = await self._connection.fetch(compiled.text, *arguments)
        return list(rows)

    async def execute(self, statement: Statement, **parameters: object) -> int:
        """Run the statement and return how many rows it touched."""
        if self._unsent:
            await self.send()
        compiled = _compiled(statement)
        tag = await self._connection.execute(compiled.text, *compiled.arguments(parameters))
        return int(tag.rpartition(" ")[2])

    async def insert(self, table: Table, rows: Iterable[Sequence[object]]) -> None:
        """Insert all rows at once."""
        await self._write(bulk_insert, table, rows)

    async def update(self, table: Table, rows: Iterable[Sequence[object]]) -> None:
        """Update all rows at once: find each by its key, and write its other columns."""
        await self._write(bulk_update, table, rows)

    async def _write(
        self,
        make: Callable[[Table], Statement],
        table: Table,
        rows: Iterable[Sequence[object]],
    ) -> None:
        compiled = _compiled_bulk(make, table)
        [values] = compiled.arguments({"rows": rows})
        name = await self._connection.prepare_once(compiled.text)
        self._unsent.append(f"EXECUTE {name}({sql_literal(values)})")


def sql_literal(text: str) -> str:
    """Return the text as an SQL literal."""
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


@lru_cache(maxsize=STATEMENTS_CACHED)
def _compiled(statement: Statement) -> CompiledStatement:
    return for_postgres(statement)


@lru_cache(maxsize=STATEMENTS_CACHED)
def _compiled_bulk(make: Callable[[Table], Statement], table: Table) -> CompiledStatement:
    return for_postgres(make(table))
