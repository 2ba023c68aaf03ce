"""If PostgreSQL refuses connections, the database is unavailable until it accepts them again."""

import asyncio
import secrets
from collections.abc import AsyncIterator

import pytest

from ousel.database.batching import SharedReads
from ousel.database.pool import ConnectionPool
from ousel.database.port import Transaction
from ousel.database.postgres import PostgresDatabase
from ousel.database.retries import ATTEMPTS_MAX
from ousel.database.statements import Statement
from ousel.kernel.errors import DatabaseUnavailable
from ousel.kernel.ids import new_secret
from tests.support.in_process import in_process_client
from tests.support.problems import assert_problem
from tests.support.raw_sql import RawSql

ONE = Statement("one", "SELECT 1")
END_CONNECTIONS = """
    SELECT pg_terminate_backend(pid, 240000) FROM pg_stat_activity WHERE usename = '{role}'
"""
REFUSALS = {
    "the role may not log in": ("ALTER ROLE {role} NOLOGIN", "ALTER ROLE {role} LOGIN"),
    "the role has too many connections": (
        "ALTER ROLE {role} CONNECTION LIMIT 0",
        "ALTER ROLE {role} CONNECTION LIMIT -1",
    ),
    "the database takes no connections": (
        "ALTER DATABASE {database} ALLOW_CONNECTIONS false",
        "ALTER DATABASE {database} ALLOW_CONNECTIONS true",
    ),
}


class RestrictedDatabase:
    """A database, open as a role that the server can be told to refuse."""

    def __init__(self, raw_sql: RawSql, role: str, database: str, url: str) -> None:
        self._owner_sql = raw_sql
        self._names = {"role": role, "database": database}
        self.url = url
        self.database = PostgresDatabase(url)

    async def run(self, sql: str) -> None:
        """Run a statement as the server's owner, and end all connections of the role."""
        for statement in (sql, END_CONNECTIONS):
            await self._owner_sql.run(statement.format(**self._names))
        await asyncio.sleep(0.05)  # until this process has heard of it; the server's have ended


@pytest.fixture
async def restricted(postgres_url: str) -> AsyncIterator[RestrictedDatabase]:
    """A fresh database, open as a role of its own."""
    role = f"role_{secrets.token_hex(4)}"
    name = postgres_url.partition("?")[0].rpartition("/")[2]
    async with RawSql(postgres_url.replace(f"/{name}?", "/postgres?")) as raw_sql:
        await raw_sql.run(f"CREATE ROLE {role} LOGIN")
        restricted = RestrictedDatabase(
            raw_sql, role, name, postgres_url.replace("postgres:@", f"{role}@")
        )
        await restricted.database.open()
        yield restricted
        await restricted.database.close()
        await restricted.run("DROP ROLE {role}")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry without pauses."""
    monkeypatch.setattr("ousel.database.retries.BACKOFF_SECONDS", 0.0)


async def one(transaction: Transaction) -> int:
    """Read a number."""
    return int((await transaction.fetch(ONE))[0][0])


@pytest.mark.parametrize("reason", REFUSALS)
async def test_a_refused_log_in_is_unavailable(restricted: RestrictedDatabase, reason: str) -> None:
    """Reads, snapshots and writes get a time to retry, and work again without a restart."""
    refuse, admit = REFUSALS[reason]
    database = restricted.database
    await restricted.run(refuse)
    try:
        for run in (database.read, database.snapshot, database.write):
            with pytest.raises(DatabaseUnavailable, match="cannot be reached") as refused:
                await run(one)
            assert refused.value.retry_after_seconds == 1
    finally:
        await restricted.run(admit)

    assert await database.read(one) == 1


async def test_tables_of_another_role_make_the_database_unavailable(
    restricted: RestrictedDatabase,
) -> None:
    """The operator has to correct this; no request is at fault."""
    entries = Statement("entries", "SELECT count(*) FROM entries")
    with pytest.raises(DatabaseUnavailable, match="InsufficientPrivilegeError"):
        await restricted.database.read(lambda transaction: transaction.fetch(entries))


async def test_a_refused_log_in_is_not_blamed_on_a_key(
    restricted: RestrictedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys that are read together fail together: the batch is not halved."""
    database, tries = restricted.database, []
    acquire = ConnectionPool.acquire

    async def counted(pool: ConnectionPool) -> object:
        tries.append(1)
        return await acquire(pool)

    async def load(transaction: Transaction, keys: list[int]) -> dict[int, int]:
        return dict.fromkeys(keys, await one(transaction))

    monkeypatch.setattr(ConnectionPool, "acquire", counted)
    reads = SharedReads(database, load)
    await restricted.run("ALTER ROLE {role} NOLOGIN")
    outcomes = await asyncio.gather(*map(reads.get, range(64)), return_exceptions=True)
    await restricted.run("ALTER ROLE {role} LOGIN")

    assert all(isinstance(each, DatabaseUnavailable) for each in outcomes)
    assert len(tries) == ATTEMPTS_MAX
    assert await reads.get(1) == 1


async def test_a_request_gets_a_time_to_retry(restricted: RestrictedDatabase) -> None:
    """The answer is 503 with Retry-After, not 500."""
    headers = {"Authorization": f"Bearer {new_secret('sk_live_')}"}
    async with in_process_client(restricted.url) as client:
        await restricted.run("ALTER ROLE {role} NOLOGIN")
        answer = await client.get("/balance", headers=headers)
        await restricted.run("ALTER ROLE {role} LOGIN")

    assert_problem(answer, 503, "database_unavailable")
    assert answer.headers["Retry-After"] == "1"
