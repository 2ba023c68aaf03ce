"""Every statement finds charges by an index, so lists stay fast with many charges."""

import sqlite3
from functools import partial
from pathlib import Path

import msgspec
import pytest

from ousel.charges import store
from ousel.charges.rules import Charge, ChargeTerms
from ousel.charges.transitions import new_charge
from ousel.database.addresses import open_database
from ousel.database.port import Transaction
from ousel.database.statements import Statement, bulk_update, for_sqlite
from ousel.kernel.clock import system_clock
from tests.support.engines import Engines
from tests.support.query_plans import postgres_plan

TERMS = ChargeTerms(amount=1_000_000)


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        *(
            (
                store.PAGES[
                    store.PageFilters(
                        status=status,
                        reference=reference,
                        status_changed=status_changed,
                        oldest_first=oldest_first,
                    )
                ],
                index,
            )
            for (status, reference), index in (
                ((False, False), "charges_in_order"),
                ((True, False), "charges_by_status"),
                ((False, True), "charges_by_reference"),
                ((True, True), "charges_by_reference"),
            )
            for status_changed in (False, True)
            for oldest_first in (False, True)
        ),
        (store.CHARGES_BY_ID, "charges_by_id"),
        (store.STATUSES_BY_ID, "charges_by_id"),
        (store.LOCK_CHARGES, "charges_by_id"),
        (store.FINAL_CHARGES, "charges_by_id"),
    ],
)
def test_sqlite_finds_charges_by_the_right_index(
    engines: Engines, tmp_path: Path, statement: Statement, index: str
) -> None:
    """Without statistics, SQLite must choose the index from the statement, and must not sort."""
    connection = sqlite3.connect(engines.fresh_url("sqlite", tmp_path))
    text = for_sqlite(statement).text
    nothing = [None] * text.count("?")

    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", nothing)]

    connection.close()
    assert any(index in step for step in plan), plan
    assert not any("SCAN charges" in step for step in plan)
    assert statement is store.LOCK_CHARGES or not any("TEMP B-TREE" in step for step in plan)


@pytest.mark.parametrize("filters", [each for each in store.PAGES if each.oldest_first])
async def test_a_page_begins_at_its_position(
    engines: Engines, tmp_path: Path, postgres_url: str, filters: store.PageFilters
) -> None:
    """With the oldest first, no plan reads the charges before the position."""
    statement = store.PAGES[filters]
    async with open_database(postgres_url) as database:
        plan = await database.read(partial(postgres_plan, statement=statement))
    connection = sqlite3.connect(engines.fresh_url("sqlite", tmp_path))
    text = for_sqlite(statement).text
    steps = connection.execute(f"EXPLAIN QUERY PLAN {text}", [None] * text.count("?")).fetchall()
    connection.close()

    [conditions] = [line for line in plan if "Index Cond" in line and "created_at" in line]
    assert "(ROW(created_at, id) > ROW(" in conditions
    assert "(created_at >" not in conditions
    assert any("(created_at,id)>(?,?)" in step[3] for step in steps)


async def test_postgresql_finds_a_charge_by_its_id_among_thousands(postgres_url: str) -> None:
    """Without statistics, no plan may read all charges of an account."""
    statements = (
        store.CHARGES_BY_ID,
        store.STATUSES_BY_ID,
        store.LOCK_CHARGES,
        store.FINAL_CHARGES,
        *map(bulk_update, (store.EXPIRIES, store.CANCELLATIONS, store.PAYMENTS)),
    )
    charges = [new_charge("acct_1", "app_1", TERMS, None, system_clock) for _ in range(2_000)]

    async with open_database(postgres_url) as database:
        await database.write(partial(_add_all, charges=charges))
        plans = [
            await database.read(partial(postgres_plan, statement=statement))
            for statement in statements
        ]

    for plan in plans:
        assert any("using charges_by_id on charges" in line for line in plan), plan


async def _add_all(transaction: Transaction, charges: list[Charge]) -> None:
    rows = [msgspec.structs.astuple(charge)[: len(store.CHARGES.names)] for charge in charges]
    await transaction.insert(store.CHARGES, rows)
