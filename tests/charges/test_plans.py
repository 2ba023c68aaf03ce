"""Lists stay quick however many charges there are: each page is found by its own index."""

import sqlite3
from pathlib import Path

import pytest

from ousel.charges import store
from ousel.database.statements import Statement, for_sqlite
from tests.support.engines import Engines


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        (store.PAGE, "charges_in_order"),
        (store.PAGE_WITH_STATUS, "charges_by_status"),
        (store.PAGE_WITH_REFERENCE, "charges_by_reference"),
        (store.PAGE_WITH_BOTH, "charges_by_reference"),
        (store.CHARGE_BY_ID, "charges_by_id"),
        (store.CHARGES_LOCKED, "charges_by_id"),
        (store.FINAL_AMONG, "charges_by_id"),
    ],
)
def test_sqlite_finds_charges_by_the_right_index(
    engines: Engines, tmp_path: Path, statement: Statement, index: str
) -> None:
    """Without statistics SQLite must choose by the statement alone, in order and without a sort."""
    connection = sqlite3.connect(engines.fresh_url("sqlite", tmp_path))
    text = for_sqlite(statement).text
    nothing = [None] * text.count("?")

    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", nothing)]

    connection.close()
    assert any(index in step for step in plan), plan
    assert not any("SCAN charges" in step for step in plan)
    assert statement is store.CHARGES_LOCKED or not any("TEMP B-TREE" in step for step in plan)
