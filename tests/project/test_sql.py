"""SQL is only in the modules that the architecture names."""

import re
from pathlib import Path

import ousel

PACKAGES = Path(ousel.__file__).parent
SQL = re.compile(r'"\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH|CREATE|PRAGMA) ')
IN_THE_LEDGER = {"history.py", "journal.py", "movements.py", "partner_key_check.py", "totals.py"}


def may_contain_sql(path: Path) -> bool:
    """Return whether the architecture allows SQL in this file."""
    package = path.parts[0]
    return (
        path.name.endswith("store.py")
        or package == "database"
        or (package == "ledger" and path.name in IN_THE_LEDGER)
    )


def test_sql_is_only_in_stores_the_ledger_and_the_database() -> None:
    """No other module contains SQL, and the search finds the SQL that is there."""
    found = {
        path.relative_to(PACKAGES)
        for path in PACKAGES.rglob("*.py")
        if SQL.search(path.read_text("utf-8"))
    }

    assert {path for path in found if not may_contain_sql(path)} == set()
    assert {path.name for path in found if path.parts[0] == "ledger"} == IN_THE_LEDGER
    assert {"store.py", "schema.py", "deployment.py"} <= {path.name for path in found}
