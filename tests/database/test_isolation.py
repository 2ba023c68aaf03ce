"""Transactions are read committed, whatever the default of the server, database or role is."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ousel.database.port import Transaction
from ousel.database.postgres import PostgresDatabase
from ousel.database.statements import Statement
from tests.database.sample_rows import add_row
from tests.support.raw_sql import RawSql
from tests.support.waiting import until_blocked

LEVEL = Statement("the isolation level", "SELECT current_setting('transaction_isolation')")
COUNTED_UP = Statement(
    "count up", "UPDATE deployment SET value = value || 'x' WHERE name = 'count' RETURNING value"
)


@pytest.fixture(params=["repeatable read", "serializable"])
async def strict_url(request: pytest.FixtureRequest, postgres_url: str) -> AsyncIterator[str]:
    """A database whose sessions have another isolation level by default."""
    async with RawSql(postgres_url) as raw_sql:
        [(name, role)] = await raw_sql.run("SELECT current_database(), current_user")
        targets = (f"DATABASE {name}", f"ROLE {role} IN DATABASE {name}")
        for target in targets:
            await raw_sql.run(
                f"ALTER {target} SET default_transaction_isolation = '{request.param}'"
            )
        yield postgres_url
        for target in targets:
            await raw_sql.run(f"ALTER {target} RESET default_transaction_isolation")


async def test_a_transaction_that_waited_for_a_lock_is_not_repeated(strict_url: str) -> None:
    """It goes on with what the other transaction has committed."""
    database = PostgresDatabase(strict_url)
    await database.open()
    await database.write(lambda transaction: add_row(transaction, "count"))
    attempts: list[str] = []
    locked = asyncio.Event()

    async def first(transaction: Transaction) -> None:
        await transaction.fetch(COUNTED_UP)
        locked.set()
        await until_blocked(strict_url)

    async def second(transaction: Transaction) -> str:
        attempts.append((await transaction.fetch(LEVEL))[0][0])
        return str((await transaction.fetch(COUNTED_UP))[0][0])

    async def write_second() -> str:
        await locked.wait()
        return await database.write(second)

    _, counted = await asyncio.gather(database.write(first), write_second())
    levels = [await run(level) for run in (database.read, database.snapshot)]
    await database.close()

    assert counted == "xx"
    assert attempts == ["read committed"]
    assert levels == ["read committed", "repeatable read"]


async def level(transaction: Transaction) -> str:
    """Return the isolation level of this transaction."""
    return str((await transaction.fetch(LEVEL))[0][0])
