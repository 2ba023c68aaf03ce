"""The security events of an account are found by an index, however many there are."""

import sqlite3
from functools import partial
from pathlib import Path

import msgspec
import pytest

from ousel.database.addresses import open_database
from ousel.database.port import Transaction
from ousel.database.statements import Statement, for_sqlite
from ousel.people import store
from ousel.people.rules import AuditEvent
from tests.support.engines import Engines
from tests.support.query_plans import postgres_plan

# Anybody can cause many events of other kinds, as by renaming an app, and sign in after each.
STATEMENTS = (store.HAS_NEW_PASSWORD, store.HAS_SIGNED_IN_SINCE_RESET)
EVENTS = [
    AuditEvent("acct_1", f"ev_{number:04}", "app_renamed", "", "192.0.2.1", "Firefox", number)
    for number in range(2_000)
]


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda each: each.name)
def test_sqlite_finds_events_by_their_kind(
    engines: Engines, tmp_path: Path, statement: Statement
) -> None:
    """Without statistics, SQLite must choose the index from the statement."""
    connection = sqlite3.connect(engines.fresh_url("sqlite", tmp_path))
    text = for_sqlite(statement).text

    plan = [
        row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", [None] * text.count("?"))
    ]

    connection.close()
    expected = "audit_events_by_kind (account_id=? AND kind=? AND created_at>?)"
    assert any(expected in step for step in plan), plan


async def test_postgresql_finds_events_by_their_kind_among_thousands(postgres_url: str) -> None:
    """Without statistics, no plan may read all events of an account."""
    async with open_database(postgres_url) as database:
        await database.write(_add_events)
        plans = [await database.read(partial(postgres_plan, statement=each)) for each in STATEMENTS]

    for plan in plans:
        assert any("using audit_events_by_kind on audit_events" in line for line in plan), plan


async def _add_events(transaction: Transaction) -> None:
    await transaction.insert(store.AUDIT_EVENTS, [msgspec.structs.astuple(each) for each in EVENTS])
