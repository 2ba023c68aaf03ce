"""The names of the statements that a service runs, to compare what it does in two cases."""

from typing import Any, Literal, TypeVar, cast

import msgspec
import pytest

from ousel.database.port import Database, Row, Transaction, Work
from ousel.database.statements import Statement, Table

Result = TypeVar("Result")


class RecordingTransaction(msgspec.Struct):
    """A transaction that records the names of its statements."""

    transaction: Transaction
    asked: list[str]

    async def fetch(self, statement: Statement, **parameters: Any) -> list[Row]:
        """Run the statement and return all its rows."""
        self.asked.append(statement.name)
        return await self.transaction.fetch(statement, **parameters)

    async def execute(self, statement: Statement, **parameters: Any) -> int:
        """Run the statement and return how many rows it has changed."""
        self.asked.append(statement.name)
        return await self.transaction.execute(statement, **parameters)

    async def insert(self, table: Table, rows: list[tuple[Any, ...]]) -> None:
        """Insert the rows."""
        self.asked.append(f"{table.name}: {len(rows)}")
        await self.transaction.insert(table, rows)


def record_statements(
    monkeypatch: pytest.MonkeyPatch, database: Database, method: Literal["read", "write"]
) -> list[str]:
    """Return a list to which each statement of the database's later transactions is added."""
    asked: list[str] = []
    run = getattr(database, method)

    async def recording(work: Work[Result]) -> Result:
        async def with_names(transaction: Transaction) -> Result:
            return await work(cast("Transaction", RecordingTransaction(transaction, asked)))

        result: Result = await run(with_names)
        return result

    monkeypatch.setattr(database, method, recording)
    return asked
