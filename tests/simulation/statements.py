"""What the simulated server has to know about a statement: the rows it locks, and its snapshot."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from ousel.database.statements import Statement
from tests.simulation.locks import Row

_WRITES = re.compile(r"(INSERT INTO|UPDATE|DELETE FROM) (\w+)")
_AWAITED = re.compile(r" FROM (\w+) WHERE id = :(\w+) FOR UPDATE(?! SKIP)")
_LOCKED = re.compile(r".* FROM (\w+) WHERE id = ANY\(:(\w+)\).* FOR UPDATE( SKIP LOCKED)?$")
_UPDATE = re.compile(r"(?:UPDATE (\w+) SET .*?|DELETE FROM (\w+)) WHERE (.*)", re.DOTALL)
_ROWS_WITH_KEYS = re.compile(r"INSERT INTO charges ")

TableAndParameter = tuple[str, str]


class Footprint(msgspec.Struct, frozen=True):
    """How a statement acts on rows."""

    is_write: bool
    awaited: TableAndParameter | None  # one row that FOR UPDATE locks first
    locked: TableAndParameter | None  # the rows that FOR UPDATE locks then
    skips_locked: bool
    id_column: int  # where a row of the result says which row it is
    snapshot_columns: tuple[int, ...]  # subqueries: as of the statement's start, even after a wait
    touched_rows: Statement | None  # finds the rows that an UPDATE or DELETE locks
    touched_table: str

    @property
    def locks(self) -> bool:
        """Whether FOR UPDATE locks any rows."""
        return self.awaited is not None or self.locked is not None


@lru_cache(maxsize=256)
def footprint(statement: Statement) -> Footprint:
    """Return how this statement acts on rows."""
    text = " ".join(statement.text.split())
    writes = _WRITES.match(text)
    awaited, locked = _AWAITED.search(text), _LOCKED.match(text)
    columns = _columns(text)
    names = [column.rpartition(".")[2] for column in columns]
    return Footprint(
        is_write=writes is not None,
        awaited=None if awaited is None else (awaited[1], awaited[2]),
        locked=None if locked is None else (locked[1], locked[2]),
        skips_locked=locked is not None and locked[3] is not None,
        id_column=names.index("id") if "id" in names else 0,
        snapshot_columns=tuple(
            index for index, column in enumerate(columns) if column.startswith("(SELECT ")
        ),
        touched_rows=_touched_rows(text),
        touched_table="" if writes is None else writes[2],
    )


def inserted_keys(statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
    """Return the unique keys that an insertion of charges claims: another one of them waits."""
    if not _ROWS_WITH_KEYS.match(statement.text):
        return []
    keys = [(row[0], row[9]) for row in parameters["rows"] if row[9] is not None]
    return [("charge key", *key) for key in sorted(keys)]


def _touched_rows(text: str) -> Statement | None:
    found = _UPDATE.match(text)
    if found is None or "FOR UPDATE" in text or "ROWS(" in text:
        return None
    table = found[1] or found[2]
    identity = "id" if table in {"accounts", "charges"} else "rowid"
    return Statement("rows", f"SELECT {identity} FROM {table} WHERE {found[3]}")


def _columns(text: str) -> list[str]:
    """Return the columns of a SELECT."""
    if not text.startswith("SELECT "):
        return []
    depth, start, columns = 0, len("SELECT "), []
    for index in range(start, len(text)):
        depth += (text[index] == "(") - (text[index] == ")")
        is_end = text.startswith(" FROM ", index)
        if depth == 0 and (text[index] == "," or is_end):
            columns.append(text[start:index].strip())
            start = index + 1
            if is_end:
                break
    return columns


def merge_snapshot(
    before: Sequence[Sequence[Any]], after: Sequence[Sequence[Any]], columns: Sequence[int]
) -> list[tuple[Any, ...]]:
    """Return the rows as they are after the wait, with their subqueries as of before."""
    if not before:
        return [tuple(row) for row in after]
    first = before[0]
    return [
        tuple(first[index] if index in columns else value for index, value in enumerate(row))
        for row in after
    ]
