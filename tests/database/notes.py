"""Short words for tests that need some rows: names and values in the table `deployment`."""

from ousel.database.port import Database, Transaction
from ousel.database.statements import Statement, Table

NOTES = Table("deployment", key=("name text",), columns=("value text",))
NOTE_ADDED = Statement("add a note", "INSERT INTO deployment (name, value) VALUES (:name, :value)")
ALL_NOTES = Statement("all notes", "SELECT name, value FROM deployment ORDER BY name")


async def add(transaction: Transaction, name: str, value: str = "") -> None:
    """Insert one row."""
    await transaction.execute(NOTE_ADDED, name=name, value=value)


async def fetch_all(transaction: Transaction) -> dict[str, str]:
    """Return all rows."""
    return {row[0]: row[1] for row in await transaction.fetch(ALL_NOTES)}


async def found(database: Database) -> dict[str, str]:
    """Return all rows that are committed."""
    return await database.read(fetch_all)
