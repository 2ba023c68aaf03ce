"""SQL stands where the architecture says that it does."""

import re
from pathlib import Path

import ousel

ROOMS = Path(ousel.__file__).parent
SQL = re.compile(r'"\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH|CREATE|PRAGMA) ')
IN_THE_LEDGER = {"journal.py", "history.py", "totals.py"}


def may_hold_sql(path: Path) -> bool:
    """Say whether the architecture has SQL in this file."""
    room = path.parts[0]
    return (
        path.name == "store.py"
        or room == "database"
        or (room == "ledger" and path.name in IN_THE_LEDGER)
    )


def test_sql_stands_in_stores_the_journal_and_the_database_room() -> None:
    """Nobody else writes any; and the search finds what is there."""
    found = {
        path.relative_to(ROOMS)
        for path in ROOMS.rglob("*.py")
        if SQL.search(path.read_text("utf-8"))
    }

    assert {path for path in found if not may_hold_sql(path)} == set()
    assert {path.name for path in found if path.parts[0] == "ledger"} == IN_THE_LEDGER
    assert {"store.py", "schema.py", "deployment.py"} <= {path.name for path in found}
