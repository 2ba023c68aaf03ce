"""How tables are distributed and statements rewritten for Citus; tests/citus runs them there."""

import asyncio
import re
from functools import partial
from typing import Any, cast

import msgspec
import pytest

from ousel.charges.store import CHARGES_BY_ID, PAYMENTS
from ousel.database import citus
from ousel.database.citus import DISTRIBUTION_COLUMNS, REFERENCE_TABLES, SINGLE_SHARD_TABLES
from ousel.database.citus_functions import CALLS, FUNCTIONS
from ousel.database.citus_statements import for_citus, update_for_citus
from ousel.database.citus_transaction import NEEDS_WHOLE_POSTINGS
from ousel.database.statements import Statement
from ousel.kernel.clock import system_clock
from ousel.kernel.ids import id_with_owner, new_id
from ousel.ledger.history import HISTORY
from ousel.ledger.journal import ACCOUNT_HEADS, ACCOUNTS_WITH_LATER_ENTRIES, ENTRIES_IN_ORDER
from ousel.ledger.movements import DELETE_UNSEALED, MOVEMENTS_AT
from tests.cli.commands import assert_fails, ousel
from tests.database.test_every_statement import every_statement
from tests.support.raw_sql import RawSql

ACCOUNT_ID = new_id("acct_", system_clock)
CHARGE_ID = new_id("ch_", system_clock)
UNIQUE = """
    SELECT tablename, indexdef FROM pg_indexes
    WHERE schemaname = 'public' AND indexdef LIKE 'CREATE UNIQUE INDEX%'
"""


@pytest.fixture(scope="module")
def statements() -> set[Statement]:
    """All statements of Ousel."""
    return set(every_statement())


async def test_every_table_has_a_place(postgres_url: str) -> None:
    """A migration that adds a table must say how it is distributed."""
    async with RawSql(postgres_url) as raw_sql:
        tables = await raw_sql.run("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")

    placed = [*DISTRIBUTION_COLUMNS, *REFERENCE_TABLES, *SINGLE_SHARD_TABLES]
    assert sorted(placed) == sorted(name for (name,) in tables)


async def test_a_database_that_is_distributed_only_in_part_is_refused(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a table or a function is missing, one clear line names the command that goes on."""

    async def is_distributed(_: object) -> bool:
        return True

    monkeypatch.setattr(citus, "is_distributed", is_distributed)
    show_account = partial(ousel, "account", "show", "@nobody", database=postgres_url)
    others = [*REFERENCE_TABLES, *DISTRIBUTION_COLUMNS, *SINGLE_SHARD_TABLES]
    others.remove("accounts")
    async with RawSql(postgres_url) as raw_sql:
        await raw_sql.run("CREATE TABLE pg_dist_partition (logicalrelid regclass)")  # Citus has it
        for names, functions in ((["accounts"], ()), (others, ()), ([], FUNCTIONS)):
            refused = await asyncio.to_thread(show_account)
            assert_fails(refused, "run 'ousel migrate --distribute' again")
            for name in names:
                await raw_sql.run(f"INSERT INTO pg_dist_partition VALUES ('{name}')")
            for function in functions:
                await raw_sql.run(function)

    assert_fails(await asyncio.to_thread(show_account), "No account has this identifier")


class RecordingConnection(msgspec.Struct):
    """A connection to a Citus database on which nothing is distributed; it records statements."""

    executed: list[str]

    async def fetchval(self, _: str) -> bool:
        return True

    async def fetch(self, _: str) -> list[tuple[str]]:
        return []

    async def execute(self, text: str) -> None:
        self.executed.append(text)


async def test_the_table_that_tells_what_was_begun_is_distributed_first() -> None:
    """Whenever the distribution is interrupted, servers know that it was begun."""
    connection = RecordingConnection([])
    await citus.distribute(cast("Any", connection))
    assert connection.executed[0].startswith("SELECT create_distributed_table('accounts',")


async def test_every_unique_index_has_the_column_that_chooses_the_shard(postgres_url: str) -> None:
    """Citus could not enforce any other."""
    async with RawSql(postgres_url) as raw_sql:
        indexes = await raw_sql.run(UNIQUE)

    assert {table for table, _ in indexes} >= set(DISTRIBUTION_COLUMNS)
    for table, definition in indexes:
        column = DISTRIBUTION_COLUMNS.get(table)
        assert column is None or re.search(rf"\(.*\b{column}\b.*\)", definition), definition


def test_functions_lock_rows_of_several_shards(statements: set[Statement]) -> None:
    """Each statement that locks a list of rows is replaced by a call of a function."""
    locking = {
        each.name for each in statements if re.search(r"= ANY\(:ids\).*FOR UPDATE", each.text)
    }

    assert locking == set(CALLS)


def test_a_list_of_rows_names_its_shards() -> None:
    """Citus gets the ids once more, as a list."""
    compiled = for_citus(ACCOUNTS_WITH_LATER_ENTRIES).compiled

    assert "accounts.id = ANY($2::text[])" in compiled.text
    assert compiled.arguments({"marks": [(ACCOUNT_ID, 3)]})[1] == [ACCOUNT_ID]
    update = update_for_citus(ACCOUNT_HEADS)
    assert update.text.endswith("AND accounts.id = ANY($2::text[])")
    assert update.arguments({"rows": [(ACCOUNT_ID, 1, 2, "", 3)]})[1] == [ACCOUNT_ID]


@pytest.mark.parametrize(
    ("ids", "accounts"),
    [
        ([id_with_owner(CHARGE_ID, ACCOUNT_ID)], [ACCOUNT_ID]),
        ([CHARGE_ID], None),
        ([id_with_owner(CHARGE_ID, ACCOUNT_ID), CHARGE_ID], None),
    ],
)
def test_a_charge_that_names_its_account_is_looked_up_there(
    ids: list[str], accounts: list[str] | None
) -> None:
    """All shards are asked if one of the ids names no account."""
    assert for_citus(CHARGES_BY_ID).compiled.arguments({"ids": ids}) == [ids, accounts]
    rows = [(id_, "paid", 1, "", "") for id_ in ids]
    assert update_for_citus(PAYMENTS).arguments({"rows": rows})[1] == accounts


@pytest.mark.parametrize(
    ("statement", "named"), [(MOVEMENTS_AT, "places"), (DELETE_UNSEALED, "ids")]
)
def test_the_sealer_runs_again_unless_it_finds_all_rows(statement: Statement, named: str) -> None:
    """Some of them may not be committed yet on each server."""
    assert for_citus(statement).rows_named == named


def test_the_sealer_looks_for_missing_movements_among_whole_postings() -> None:
    """The transaction recognizes this statement by its name, and then waits for commits."""
    assert ENTRIES_IN_ORDER.name == NEEDS_WHOLE_POSTINGS


def test_accounts_to_which_rows_refer_are_appended() -> None:
    """Citus does not join them; rows without their account are left out."""
    rewritten = for_citus(HISTORY)
    assert rewritten.joined is not None
    own = rewritten.compiled.text
    width = len(own[: own.index(" FROM ")].split(", "))
    rows = [["x"] * width for _ in range(2)]
    rows[0][rewritten.joined.reference] = ACCOUNT_ID

    found = rewritten.joined.append(rows, [(ACCOUNT_ID, ACCOUNT_ID, "ada")])

    assert "JOIN" not in own
    assert "counterparty." not in own
    assert found == [(*rows[0], ACCOUNT_ID, "ada")]
