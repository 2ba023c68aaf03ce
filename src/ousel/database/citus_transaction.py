"""A transaction on Citus: like one on PostgreSQL, with statements rewritten for Citus."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, cast

from typing_extensions import override

from ousel.database.citus import keep_postings_waiting, translate_server_failures
from ousel.database.citus_statements import CitusStatement, for_citus, update_for_citus
from ousel.database.port import Row
from ousel.database.postgres_transaction import STATEMENTS_CACHED, PostgresTransaction, sql_literal
from ousel.database.retries import RowsLocked, TransientFailure
from ousel.database.statements import CompiledStatement, Statement, Table, UnstorableValue

if TYPE_CHECKING:
    from ousel.database.primary import MonitoredConnection

_NULL: Final = "NULL"
# The sealed log looks for missing movements with this statement. If it saw the entries of a
# posting while the row that announces them is not visible yet, it would take the movement for a
# missing one.
NEEDS_WHOLE_POSTINGS: Final = (
    "the entries after a given one, in the order of accounts and sequences"
)


class CitusTransaction(PostgresTransaction):
    """Statements on one connection to a node of a Citus cluster."""

    def __init__(
        self, connection: "MonitoredConnection", *unsent: str, follows_unknown_commit: bool = False
    ) -> None:
        """Send the unsent statements, such as BEGIN, before others; only a write has any."""
        super().__init__(connection, *unsent, follows_unknown_commit=follows_unknown_commit)
        self._writes = bool(unsent)

    @override
    async def send(self, *statements: str) -> None:
        """Send the unsent statements, followed by these."""
        with translate_server_failures():
            await super().send(*statements)

    @override
    async def fetch(self, statement: Statement, **parameters: object) -> list[Row]:
        """Run the statement and return all its rows, with the accounts to which they refer.

        A transaction is committed on one server after the other. So a write may find the row that
        names two entries before both entries are visible. Then the write is repeated.
        """
        if self._writes and statement.name == NEEDS_WHOLE_POSTINGS:
            if self._unsent:
                await self.send()
            with translate_server_failures():
                await keep_postings_waiting(self._connection)
        rewritten = _compiled(statement)
        rows = await self._fetch(rewritten.compiled, parameters)
        self._check_found(rewritten, parameters, len(rows))
        if rewritten.joined is None or not rows:
            return rows
        accounts: list[Row] = []
        if ids := rewritten.joined.ids(rows):
            compiled = _compiled(rewritten.joined.statement).compiled
            accounts = await self._fetch(compiled, {"ids": ids})
        return rewritten.joined.append(rows, accounts)

    @override
    async def execute(self, statement: Statement, **parameters: object) -> int:
        """Run the statement and return how many rows it touched."""
        if self._unsent:
            await self.send()
        rewritten = _compiled(statement)
        arguments = rewritten.compiled.arguments(parameters)
        with translate_server_failures():
            tag = await self._connection.execute(rewritten.compiled.text, *arguments)
        touched = int(tag.rpartition(" ")[2])
        self._check_found(rewritten, parameters, touched)
        return touched

    @override
    async def insert(self, table: Table, rows: Iterable[Sequence[object]]) -> None:
        """Insert all rows at once: Citus sends each shard its own rows."""
        values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
        if values:
            names = ", ".join(table.names)
            self._unsent.append(f"INSERT INTO {table.name} ({names}) VALUES {values}")

    @override
    async def update(self, table: Table, rows: Iterable[Sequence[object]]) -> None:
        """Update all rows at once: find each by its key, and write its other columns."""
        compiled = _compiled_update(table)
        values = ", ".join(map(_literal, compiled.arguments({"rows": list(rows)})))
        with translate_server_failures():
            name = await self._connection.prepare_once(compiled.text)
        self._unsent.append(f"EXECUTE {name}({values})")

    def _check_found(
        self, rewritten: CitusStatement, parameters: dict[str, object], found: int
    ) -> None:
        """Repeat a write that did not find every row that it must find."""
        if self._writes and rewritten.rows_named is not None:
            named = cast("Sequence[object]", parameters[rewritten.rows_named])
            if found < len(named):
                raise TransientFailure(RowsLocked())

    async def _fetch(self, compiled: CompiledStatement, parameters: dict[str, object]) -> list[Row]:
        if self._unsent:
            await self.send()
        arguments = compiled.arguments(parameters)
        with translate_server_failures():
            return list(await self._connection.fetch(compiled.text, *arguments))


def _literal(value: object) -> str:
    """Return the value as an SQL literal."""
    if value is None:
        return _NULL
    if isinstance(value, str):
        if "\0" in value:
            raise UnstorableValue("PostgreSQL cannot store the NUL character (U+0000).")
        return sql_literal(value)
    if isinstance(value, list):
        return f"ARRAY[{', '.join(map(_literal, value))}]::text[]"
    return str(value)


@lru_cache(maxsize=STATEMENTS_CACHED)
def _compiled(statement: Statement) -> CitusStatement:
    return for_citus(statement)


@lru_cache(maxsize=STATEMENTS_CACHED)
def _compiled_update(table: Table) -> CompiledStatement:
    return update_for_citus(table)
