"""Every statement of Ousel is valid SQL on both engines."""

import importlib
import pkgutil
import re
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import asyncpg
import pytest

import ousel
from ousel.database.postgres import PostgresDatabase
from ousel.database.statements import (
    Statement,
    Table,
    bulk_insert,
    bulk_update,
    for_postgres,
    for_sqlite,
)
from tests.support.query_plans import postgres_plan

NOT_TO_BE_IMPORTED = ("ousel.__main__", "ousel.database.migrations")
READ_A_WHOLE_TABLE = {
    "delete the failures of windows that are over",
    "delete all reset links",
    "how many messages wait, since when, and how many were given up",
    "revoke every key that is valid",
    "the totals of all accounts",
}


def every_statement() -> Iterator[Statement]:
    """Yield each statement and each table's bulk statements, wherever a module holds them."""
    for module in pkgutil.walk_packages(ousel.__path__, "ousel."):
        if module.name.startswith(NOT_TO_BE_IMPORTED):
            continue
        for thing in vars(importlib.import_module(module.name)).values():
            if isinstance(thing, Statement):
                yield thing
            elif isinstance(thing, Table):
                yield bulk_insert(thing)
                yield bulk_update(thing)
            elif isinstance(thing, dict | tuple) and module.name.endswith(".store"):
                things = thing.values() if isinstance(thing, dict) else thing
                yield from (each for each in things if isinstance(each, Statement))


@pytest.fixture(scope="module")
def statements() -> list[Statement]:
    """All statements, in the order of their names."""
    return sorted(set(every_statement()), key=lambda each: each.name)


def test_statements_are_found(statements: list[Statement]) -> None:
    """The search finds the ledger's statements, so the tests below do not pass for lack of any."""
    names = {each.name for each in statements}

    assert {"accounts by id", "insert entries", "update accounts"} <= names


async def test_postgresql_prepares_every_statement(
    postgres_url: str, statements: list[Statement]
) -> None:
    """PostgreSQL finds every table, column and type that a statement names."""
    connection = await asyncpg.connect(postgres_url)
    try:
        for statement in statements:
            try:
                await connection.prepare(for_postgres(statement).text)
            except asyncpg.PostgresError as error:
                pytest.fail(f"{statement.name}: {error}")
    finally:
        await connection.close()


async def test_postgresql_finds_rows_by_an_index_for_any_values(
    postgres_url: str, statements: list[Statement]
) -> None:
    """Even without statistics, no plan reads a whole table, and plans are generic."""
    database = PostgresDatabase(postgres_url)
    await database.open()

    plans = {
        each.name: "\n".join(await database.read(partial(postgres_plan, statement=each)))
        for each in statements
    }
    await database.close()

    whole = {name for name, lines in plans.items() if re.search("Seq Scan|Bitmap", lines)}
    assert whole == READ_A_WHOLE_TABLE
    assert "id = $2" in plans["freeze or unfreeze an account"]  # whatever the id is


def test_sqlite_prepares_every_statement(sqlite_file: Path, statements: list[Statement]) -> None:
    """SQLite finds every table and column that a statement names."""
    connection = sqlite3.connect(sqlite_file)
    for statement in statements:
        text = for_sqlite(statement).text
        nothing = [None] * text.count("?")
        try:
            connection.execute(f"EXPLAIN {text}", nothing)
        except sqlite3.Error as error:
            pytest.fail(f"{statement.name}: {error}")
    connection.close()
