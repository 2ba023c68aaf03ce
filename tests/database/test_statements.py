"""Statements are written once and translated for each engine."""

import pytest

from ousel.database.port import Database, Transaction
from ousel.database.statements import (
    Statement,
    Table,
    bulk_insert,
    bulk_update,
    for_postgres,
    for_sqlite,
)
from tests.database.sample_rows import SAMPLE_TABLE, committed_rows, fetch_rows

PAIRS = Table("pairs", key=("left text", "right bigint"), columns=("value text",))


def statement(text: str) -> Statement:
    return Statement("a statement", text)


def test_parameters_are_given_in_the_order_of_their_use() -> None:
    """A name used twice is one argument for PostgreSQL, and two for SQLite."""
    text = "SELECT a FROM t WHERE b = :beta AND c = :alpha AND d = :beta"
    given = {"alpha": 1, "beta": 2}

    postgres, sqlite = for_postgres(statement(text)), for_sqlite(statement(text))

    assert postgres.text == "SELECT a FROM t WHERE b = $1 AND c = $2 AND d = $1"
    assert sqlite.text == "SELECT a FROM t WHERE b = ? AND c = ? AND d = ?"
    assert list(postgres.arguments(given)) == [2, 1]
    assert list(sqlite.arguments(given)) == [2, 1, 2]


def test_membership_is_an_array_or_json() -> None:
    """`= ANY(:names)` stays an array for PostgreSQL and becomes JSON for SQLite."""
    text = "SELECT a FROM t WHERE a = ANY(:names) AND b = :b"
    given = {"names": ["x", 'y"', "ü"], "b": 5}

    postgres, sqlite = for_postgres(statement(text)), for_sqlite(statement(text))

    assert postgres.text == "SELECT a FROM t WHERE a = ANY($1) AND b = $2"
    assert list(postgres.arguments(given)) == [["x", 'y"', "ü"], 5]
    assert sqlite.text == "SELECT a FROM t WHERE a IN (SELECT value FROM json_each(?)) AND b = ?"
    assert list(sqlite.arguments(given)) == ['["x","y\\"","ü"]', 5]


def test_rows_travel_as_json() -> None:
    """`ROWS(…)` is a table made of a list of tuples, on both engines."""
    text = "SELECT a FROM ROWS(:pairs, a text, b bigint) WHERE b > :least"
    given = {"pairs": [("x", 1), ("y", 2)], "least": 0}

    postgres, sqlite = for_postgres(statement(text)), for_sqlite(statement(text))

    assert postgres.text == (
        "SELECT a FROM (SELECT CAST(value->>0 AS text) AS a, CAST(value->>1 AS bigint) AS b"
        " FROM jsonb_array_elements($1::jsonb)) AS pairs WHERE b > $2"
    )
    assert sqlite.text == (
        "SELECT a FROM (SELECT json_extract(value, '$[0]') AS a, json_extract(value, '$[1]') AS b"
        " FROM json_each(?)) AS pairs WHERE b > ?"
    )
    for compiled in (postgres, sqlite):
        assert list(compiled.arguments(given)) == ['[["x",1],["y",2]]', 0]


def test_only_postgresql_gets_locks() -> None:
    """SQLite has one writer at a time and no `FOR UPDATE`."""
    text = "SELECT a FROM t WHERE b = :b ORDER BY a FOR UPDATE"

    assert for_postgres(statement(text)).text.endswith("ORDER BY a FOR UPDATE")
    assert for_sqlite(statement(text)).text == "SELECT a FROM t WHERE b = ? ORDER BY a"


def test_bulk_statements_name_every_column() -> None:
    """The key's columns come first, and updates find rows by their key."""
    assert PAIRS.names == ["left", "right", "value"]
    assert bulk_insert(PAIRS).text == (
        "INSERT INTO pairs (left, right, value) SELECT left, right, value"
        " FROM ROWS(:rows, left text, right bigint, value text)"
    )
    assert bulk_update(PAIRS).text == (
        "UPDATE pairs SET value = rows.value"
        " FROM ROWS(:rows, left text, right bigint, value text)"
        " WHERE pairs.left = rows.left AND pairs.right = rows.right"
    )


@pytest.mark.parametrize(
    "rows", [[], [("x", 1)], [("x", 1), ("y", -(2**63)), ("ü'\"\\", 2**63 - 1)]]
)
async def test_rows_are_passed_unchanged(database: Database, rows: list[tuple[str, int]]) -> None:
    """Texts and 64-bit integers pass through a list of rows unchanged, on both engines."""
    echo = statement("SELECT a, b FROM ROWS(:pairs, a text, b bigint) ORDER BY b, a")

    async def work(transaction: Transaction) -> list[tuple[str, int]]:
        return [(row[0], row[1]) for row in await transaction.fetch(echo, pairs=rows)]

    assert await database.read(work) == sorted(rows, key=lambda row: row[1])


async def test_membership_works_on_both_engines(database: Database) -> None:
    """`= ANY` finds each of the names once, and nothing for an empty list."""
    some = statement("SELECT name FROM deployment WHERE name = ANY(:names) ORDER BY name")

    async def fill(transaction: Transaction) -> None:
        await transaction.insert(SAMPLE_TABLE, [("a", "1"), ("b", "2"), ("c", "3")])

    async def names(transaction: Transaction, wanted: list[str]) -> list[str]:
        return [row[0] for row in await transaction.fetch(some, names=wanted)]

    await database.write(fill)

    assert await database.read(lambda each: names(each, ["c", "a", "a", "z"])) == ["a", "c"]
    assert await database.read(lambda each: names(each, [])) == []


async def test_bulk_rows_are_inserted_and_updated_by_their_key(database: Database) -> None:
    """An insert writes all rows, an update only existing ones; both accept iterators."""

    async def work(transaction: Transaction) -> None:
        await transaction.insert(SAMPLE_TABLE, iter([("a", "1"), ("b", "2")]))
        await transaction.update(SAMPLE_TABLE, iter([("b", "two"), ("z", "nobody")]))
        await transaction.insert(SAMPLE_TABLE, [])
        await transaction.update(SAMPLE_TABLE, [])

    await database.write(work)

    assert await committed_rows(database) == {"a": "1", "b": "two"}


async def test_execute_returns_how_many_rows_it_touched(database: Database) -> None:
    """It counts the rows that were inserted, changed or deleted."""
    claim = statement("INSERT INTO deployment VALUES (:name, :name) ON CONFLICT DO NOTHING")
    change = statement("UPDATE deployment SET value = :value WHERE name = ANY(:names)")
    remove = statement("DELETE FROM deployment WHERE name = :name")

    async def work(transaction: Transaction) -> list[int]:
        return [
            await transaction.execute(claim, name="a"),
            await transaction.execute(claim, name="a"),
            await transaction.execute(claim, name="b"),
            await transaction.execute(change, value="x", names=["a", "b", "z"]),
            await transaction.execute(remove, name="z"),
        ]

    assert await database.write(work) == [1, 0, 1, 2, 0]
    assert await database.snapshot(fetch_rows) == {"a": "x", "b": "x"}
