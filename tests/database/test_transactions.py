"""The port begins, commits and rolls back; a read sees all commits, a snapshot a single state."""

import asyncio
from functools import partial

import pytest

from ousel.database.addresses import open_database
from ousel.database.port import (
    Database,
    IntegrityViolation,
    Transaction,
)
from ousel.database.statements import Statement, UnstorableValue
from ousel.partners.store import APPS
from tests.database.sample_rows import ALL_ROWS, SAMPLE_TABLE, add_row, committed_rows, fetch_rows
from tests.support.raw_sql import RawSql

TEXT_AS_NUMBER = Statement("a number", "SELECT CAST(CAST(:text AS TEXT) AS BIGINT)")
OPEN_TRANSACTIONS = (
    "SELECT COUNT(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND backend_type = 'client backend'"
    " AND xact_start IS NOT NULL AND pid <> pg_backend_pid()"
)
UNSTORABLE_VALUES = [
    pytest.param("\ud800", id="lone surrogate"),
    pytest.param(object(), id="an object"),
]


class WorkFailed(Exception):
    """An error in the middle of some work."""


async def test_work_is_committed_as_a_whole(database: Database, raw_sql: RawSql) -> None:
    """When `write` returns the work's result, everyone can see what the work wrote."""

    async def work(transaction: Transaction) -> str:
        await add_row(transaction, "a")
        await add_row(transaction, "b")
        return "done"

    assert await database.write(work) == "done"
    assert await raw_sql.run("SELECT name FROM deployment ORDER BY name") == [("a",), ("b",)]


async def test_work_that_fails_leaves_nothing(database: Database) -> None:
    """An error rolls everything back and is raised unchanged; the work is not repeated."""
    attempts = 0

    async def work(transaction: Transaction) -> None:
        nonlocal attempts
        attempts += 1
        await add_row(transaction, "a")
        raise WorkFailed

    with pytest.raises(WorkFailed):
        await database.write(work)

    assert attempts == 1
    assert await committed_rows(database) == {}
    await database.write(lambda transaction: add_row(transaction, "b"))
    assert await committed_rows(database) == {"b": ""}


async def test_a_row_that_a_constraint_refuses_is_an_integrity_violation(
    database: Database,
) -> None:
    """A second row with the same key raises IntegrityViolation, and nothing is written."""

    async def work(transaction: Transaction) -> None:
        await transaction.insert(SAMPLE_TABLE, [("b", "2"), ("a", "1"), ("a", "again")])

    with pytest.raises(IntegrityViolation):
        await database.write(work)

    assert await committed_rows(database) == {}


@pytest.mark.parametrize("value", UNSTORABLE_VALUES)
async def test_a_value_that_no_column_can_hold_is_not_written(
    database: Database, value: object
) -> None:
    """Both engines raise UnstorableValue."""

    async def work(transaction: Transaction) -> None:
        await add_row(transaction, "a")
        await transaction.insert(SAMPLE_TABLE, [("b", value)])

    with pytest.raises(UnstorableValue):
        await database.write(work)

    assert await committed_rows(database) == {}


async def test_a_number_of_more_than_64_bits_is_not_written(database: Database) -> None:
    """A number is never truncated."""
    with pytest.raises(UnstorableValue):
        await database.write(lambda each: each.insert(APPS, [("acct_1", "app_1", "App", 2**63)]))


@pytest.mark.parametrize("how", ["read", "snapshot"])
async def test_a_value_that_no_column_can_hold_cannot_be_looked_up(
    database: Database, how: str
) -> None:
    """Reads raise UnstorableValue too."""

    async def work(transaction: Transaction) -> None:
        await add_row(transaction, "\ud800")

    with pytest.raises(UnstorableValue):
        await (database.read(work) if how == "read" else database.snapshot(work))


async def test_reads_see_what_was_committed_before_each(
    database: Database, raw_sql: RawSql
) -> None:
    """Within one `read`, a later statement sees what another connection committed before it."""

    async def work(transaction: Transaction) -> tuple[int, int]:
        before = len(await transaction.fetch(ALL_ROWS))
        await raw_sql.run("INSERT INTO deployment VALUES ('a', '')")
        return before, len(await transaction.fetch(ALL_ROWS))

    assert await database.read(work) == (0, 1)


async def test_a_snapshot_sees_one_state(database: Database, raw_sql: RawSql) -> None:
    """All reads of a snapshot see the state at its start, whatever others write."""

    async def work(transaction: Transaction) -> tuple[int, int]:
        before = len(await transaction.fetch(ALL_ROWS))
        await raw_sql.run("INSERT INTO deployment VALUES ('a', '')")
        return before, len(await transaction.fetch(ALL_ROWS))

    assert await database.snapshot(work) == (0, 0)
    assert await database.snapshot(fetch_rows) == {"a": ""}


async def test_simultaneous_writes_all_commit(database: Database) -> None:
    """Forty callers write at once, and each write is complete."""

    async def pair(transaction: Transaction, number: int) -> None:
        await add_row(transaction, f"left {number:02d}")
        await add_row(transaction, f"right {number:02d}")

    await asyncio.gather(*(database.write(partial(pair, number=each)) for each in range(40)))

    assert len(await committed_rows(database)) == 80


async def test_a_canceled_write_is_complete_or_absent(database: Database, raw_sql: RawSql) -> None:
    """A write that is canceled at any moment takes effect as a whole or not, and leaves no lock."""

    async def work(transaction: Transaction, number: int) -> None:
        await add_row(transaction, f"left {number:02d}")
        await add_row(transaction, f"right {number:02d}")

    for number in range(40):
        task = asyncio.ensure_future(database.write(partial(work, number=number)))
        await asyncio.sleep(number * 0.000_1)  # cancels each at another moment
        task.cancel()
        await asyncio.wait([task])

    await raw_sql.run("INSERT INTO deployment VALUES ('unlocked', '')")
    names = [name for name in await committed_rows(database) if name != "unlocked"]
    assert {name.replace("left", "right") for name in names} == {
        name for name in names if name.startswith("right")
    }


@pytest.mark.parametrize("text", ["\ud800", "x"], ids=["not sent", "refused by the server"])
async def test_no_transaction_stays_open_if_its_first_statement_fails(
    postgres_url: str, text: str
) -> None:
    """PostgreSQL gets BEGIN together with the first statement; both are rolled back."""
    async with open_database(postgres_url) as database, RawSql(postgres_url) as raw_sql:
        for _ in range(2):  # the statement is prepared by the first transaction
            with pytest.raises(UnstorableValue):
                await database.write(
                    lambda transaction: transaction.fetch(TEXT_AS_NUMBER, text=text)
                )

            assert await raw_sql.run(OPEN_TRANSACTIONS) == [(0,)]
        await database.write(lambda transaction: add_row(transaction, "a"))
        assert await committed_rows(database) == {"a": ""}
