"""Statements and tables: SQL with a name, written once for both engines.

The text is SQL that SQLite and PostgreSQL share, with five notations that are translated for each
engine:

- `:name`                      a parameter;
- `= ANY(:names)`              membership in a list;
- `ROWS(:pairs, a text, b text)`  a list of tuples as a table, which is sent as JSON: drivers bind
  one long text faster than many arrays or rows;
- `FOR UPDATE`                 row locks; SQLite needs none, because it has one writer at a time;
- `CLOCK()`                    what the database's clock shows, in microseconds: on PostgreSQL the
  server's, on SQLite this host's.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

import msgspec

BIGINT_MAX: Final = 2**63 - 1  # the largest number that a column of integers can hold
POSTGRES_CLOCK: Final = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"

_PARAMETER: Final = re.compile(r"(?<!:):([a-z_]+)")
_ANY: Final = re.compile(r"= ANY\((:[a-z_]+)\)")
_ROWS: Final = re.compile(r"ROWS\(:([a-z_]+), ([a-z_, ]+)\)")
_LOCK: Final = re.compile(r"\s+FOR UPDATE\b( SKIP LOCKED\b)?")
_CLOCK: Final = "CLOCK()"
_SQLITE_CLOCK: Final = "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"

ArgumentBuilder = Callable[[dict[str, Any]], Sequence[Any]]


class UnstorableValue(Exception):
    """A value that the database cannot store."""


class Statement(msgspec.Struct, frozen=True):
    """One SQL statement with a name, which says what it does.

    On Citus, some statements are recognized by their names: see `citus_functions`,
    `citus_statements` and `citus_transaction`.
    """

    name: str
    text: str


class Table(msgspec.Struct, frozen=True):
    """A table that bulk statements write: its key columns, then the others, each as `name type`."""

    name: str
    key: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def key_names(self) -> list[str]:
        """The names of the key's columns."""
        return [column.split()[0] for column in self.key]

    @property
    def column_names(self) -> list[str]:
        """The names of the columns after the key."""
        return [column.split()[0] for column in self.columns]

    @property
    def names(self) -> list[str]:
        """The names of all columns, in order."""
        return self.key_names + self.column_names


class CompiledStatement(msgspec.Struct, frozen=True):
    """A statement for one engine: its text, and how named parameters become arguments."""

    text: str
    arguments: ArgumentBuilder


def for_postgres(statement: Statement) -> CompiledStatement:
    """Return the statement with numbered parameters, arrays, and rows as JSON."""
    names: list[str] = []

    def number(name: str) -> str:
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    def from_json(match: re.Match[str]) -> str:
        columns = ", ".join(
            f"CAST(value->>{index} AS {kind}) AS {name}"
            for index, (name, kind) in enumerate(_columns(match[2]))
        )
        elements = f"jsonb_array_elements({number(match[1])}::jsonb)"
        return f"(SELECT {columns} FROM {elements}) AS {match[1]}"

    row_lists = {match[1] for match in _ROWS.finditer(statement.text)}
    text = _ROWS.sub(from_json, statement.text.replace(_CLOCK, POSTGRES_CLOCK))
    text = _PARAMETER.sub(lambda match: number(match[1]), text)
    return CompiledStatement(text, _argument_builder(names, row_lists))


def for_sqlite(statement: Statement) -> CompiledStatement:
    """Return the statement with a `?` for each use of a parameter, and lists and rows as JSON."""

    def from_json(match: re.Match[str]) -> str:
        columns = ", ".join(
            f"json_extract(value, '$[{index}]') AS {name}"
            for index, (name, _) in enumerate(_columns(match[2]))
        )
        return f"(SELECT {columns} FROM json_each(:{match[1]})) AS {match[1]}"

    text = _LOCK.sub("", statement.text).replace(_CLOCK, _SQLITE_CLOCK)
    lists = {match[1] for match in _ROWS.finditer(text)}
    lists |= {match[1][1:] for match in _ANY.finditer(text)}
    text = _ROWS.sub(from_json, text)
    text = _ANY.sub(r"IN (SELECT value FROM json_each(\1))", text)
    names = _PARAMETER.findall(text)
    return CompiledStatement(_PARAMETER.sub("?", text), _argument_builder(names, lists))


def _columns(declared: str) -> list[list[str]]:
    return [column.split() for column in declared.split(", ")]


def _argument_builder(names: list[str], lists: Collection[str]) -> ArgumentBuilder:
    """Return a function that orders parameters by these names, and writes lists as JSON."""

    def build_arguments(given: dict[str, Any]) -> Sequence[Any]:
        return [json_text(given[name]) if name in lists else given[name] for name in names]

    return build_arguments


_encode: Final = msgspec.json.Encoder().encode


def json_text(values: Iterable[Any]) -> str:
    """Return a list as JSON, or raise UnstorableValue."""
    try:
        return _encode(list(values)).decode()
    except (TypeError, UnicodeEncodeError) as error:
        raise UnstorableValue(str(error)) from error


def bulk_insert(table: Table) -> Statement:
    """Return the statement that inserts a list of rows, given as `rows`."""
    names = ", ".join(table.names)
    text = f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {_rows(table)}"
    return Statement(f"insert {table.name}", text)


def bulk_update(table: Table) -> Statement:
    """Return the statement that updates a list of rows, given as `rows`."""
    changes = ", ".join(f"{name} = rows.{name}" for name in table.column_names)
    match = " AND ".join(f"{table.name}.{name} = rows.{name}" for name in table.key_names)
    text = f"UPDATE {table.name} SET {changes} FROM {_rows(table)} WHERE {match}"
    return Statement(f"update {table.name}", text)


def deletion_of_oldest(name: str, table: Table, *, by: str) -> Statement:
    """Return the statement that deletes up to `limit` rows, those with the oldest times first.

    The column `by` has the times. Only rows up to the time `:before` are deleted. All processes
    lock the rows in the same order, so they cannot deadlock. The list of rows is materialized, so
    PostgreSQL chooses them only once.
    """
    key = ", ".join(table.key_names)
    text = (
        f"DELETE FROM {table.name} WHERE ({key}) IN ("
        f" WITH oldest AS MATERIALIZED (SELECT {key} FROM {table.name}"
        f" WHERE {by} <= :before ORDER BY {by}, {key} LIMIT :limit FOR UPDATE)"
        f" SELECT {key} FROM oldest)"
    )
    return Statement(name, text)


def deletion_since(name: str, table: Table, *, by: str) -> Statement:
    """Return the statement that deletes about `limit` rows, from the time `:since` on.

    The column `by` has the times. If several rows have the last of these times, all of them are
    deleted. The statement returns the times of the deleted rows.
    """
    text = (
        f"DELETE FROM {table.name} WHERE {by} >= :since AND {by} <= (SELECT MAX({by}) FROM ("
        f"SELECT {by} FROM {table.name} WHERE {by} >= :since ORDER BY {by} LIMIT :limit) AS next)"
        f" RETURNING {by}"
    )
    return Statement(name, text)


def _rows(table: Table) -> str:
    return f"ROWS(:rows, {', '.join(table.key + table.columns)})"
