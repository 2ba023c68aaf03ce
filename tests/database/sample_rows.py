"""Sample rows for tests: names and values in the table `deployment`."""

from ousel.database.port import Database, Transaction
from ousel.database.statements import Statement, Table

SAMPLE_TABLE = Table("deployment", key=("name text",), columns=("value text",))
ROW_ADDED = Statement("add a row", "INSERT INTO deployment (name, value) VALUES (:name, :value)")
ALL_ROWS = Statement("all rows", "SELECT name, value FROM deployment ORDER BY name")


async def add_row(transaction: Transaction, name: str, value: str = "") -> None:
    """Insert one row."""
    await transaction.execute(ROW_ADDED, name=name, value=value)


async def fetch_rows(transaction: Transaction) -> dict[str, str]:
    """Return all values by name."""
    return {row[0]: row[1] for row in await transaction.fetch(ALL_ROWS)}


async def committed_rows(database: Database) -> dict[str, str]:
    """Return all committed values by name."""
    return await database.read(fetch_rows)
