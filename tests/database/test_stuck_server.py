"""If a server is stuck or became a standby, its connections are ended and nobody waits for it."""

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial

import asyncpg
import pytest

from ousel.database import postgres as engine
from ousel.database.port import Transaction
from ousel.database.postgres import PostgresDatabase
from ousel.database.postgres_transaction import PostgresTransaction
from ousel.database.statements import Statement
from ousel.kernel.errors import OutcomeUnknown
from tests.database.sample_rows import add_row, committed_rows
from tests.support.postgres_proxy import PostgresProxy
from tests.support.raw_sql import RawSql
from tests.support.waiting import until, until_async

BACKEND = Statement("which process serves the connection", "SELECT pg_backend_pid()")
LOCKED = Statement("lock a row", "SELECT name FROM deployment WHERE name = 'a' FOR UPDATE")
SLEEP = Statement("take long", "SELECT 1 FROM pg_sleep(600)")
STAY_IDLE = Statement("be idle", "SET LOCAL idle_in_transaction_session_timeout = 0")

# Commits of new rows wait for a lock, which a test holds.
COMMITS_LOCK = "SELECT pg_advisory_lock(1)"
HELD_COMMITS = (
    """
    CREATE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM set_config('lock_timeout', '0', true), pg_advisory_xact_lock(1);
        RETURN NULL;
    END $$
    """,
    """
    CREATE CONSTRAINT TRIGGER waiting AFTER INSERT ON deployment
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait_for_test()
    """,
    COMMITS_LOCK,
)


@pytest.fixture
async def short_timeouts(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PostgresDatabase]:
    """A fresh database with short timeouts for statements, commits, locks and idle sessions."""
    monkeypatch.setattr(engine, "STATEMENT_TIMEOUT_SECONDS", 0.8)
    monkeypatch.setattr(engine, "COMMIT_TIMEOUT_SECONDS", 0.5)
    short = {"idle_in_transaction_session_timeout": "500ms", "lock_timeout": "100ms"}
    settings = engine._SERVER_SETTINGS | short  # noqa: SLF001
    monkeypatch.setattr(engine, "_SERVER_SETTINGS", settings)
    database = PostgresDatabase(postgres_url)
    await database.open()
    yield database
    await database.close()


@pytest.fixture
async def held_commits(postgres_url: str) -> AsyncIterator[RawSql]:
    """A session that holds the commits of new rows until it ends or lets them go."""
    async with RawSql(postgres_url) as raw_sql:
        for statement in HELD_COMMITS:
            await raw_sql.run(statement)
        yield raw_sql


@pytest.mark.parametrize("how", ["read", "snapshot", "write"])
async def test_a_demoted_primary_is_not_used_again(postgres: PostgresDatabase, how: str) -> None:
    """If a server says that it takes no writes, the next attempt uses another connection."""
    backends: list[int] = []

    async def work(transaction: Transaction) -> None:
        backends.append((await transaction.fetch(BACKEND))[0][0])
        if len(backends) == 1:
            raise asyncpg.ReadOnlySQLTransactionError("it is a standby now")

    run = {"read": postgres.read, "snapshot": postgres.snapshot, "write": postgres.write}[how]
    await run(work)

    assert len(set(backends)) == 2


async def test_a_snapshot_may_pause(short_timeouts: PostgresDatabase) -> None:
    """Whoever verifies a large ledger computes for long between two statements."""

    async def work(transaction: Transaction) -> None:
        await transaction.fetch(BACKEND)
        await asyncio.sleep(0.7)
        await transaction.fetch(BACKEND)

    await short_timeouts.snapshot(work)


@pytest.mark.parametrize("how", ["read", "snapshot", "write"])
async def test_a_stuck_statement_times_out(short_timeouts: PostgresDatabase, how: str) -> None:
    """The work is repeated on another connection, without waiting for the first."""
    backends: list[int] = []
    started = time.monotonic()

    async def work(transaction: Transaction) -> None:
        backends.append((await transaction.fetch(BACKEND))[0][0])
        if len(backends) == 1:
            await transaction.fetch(SLEEP)

    run = {
        "read": short_timeouts.read,
        "snapshot": short_timeouts.snapshot,
        "write": short_timeouts.write,
    }[how]
    await run(work)

    assert len(set(backends)) >= 2
    assert time.monotonic() - started < 500.0


async def test_waiting_for_a_lock_times_out(
    short_timeouts: PostgresDatabase, postgres_url: str
) -> None:
    """If another transaction locks a row for too long, the work is repeated from its start."""
    attempts = 0

    async def work(transaction: Transaction) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 2:
            await raw_sql.run("COMMIT")
        await transaction.fetch(LOCKED)

    async with RawSql(postgres_url) as raw_sql:
        await raw_sql.run("INSERT INTO deployment VALUES ('a', '')")
        await raw_sql.run("BEGIN")
        await raw_sql.run(LOCKED.text)
        await short_timeouts.write(work)

    assert attempts >= 2


def test_a_commit_is_overdue_before_the_driver_would_cancel_it() -> None:
    """The driver cancels slow statements, so the timer that ends a commit must be shorter."""
    assert engine.COMMIT_TIMEOUT_SECONDS < engine.STATEMENT_TIMEOUT_SECONDS


async def test_an_overdue_commit_is_not_canceled(
    short_timeouts: PostgresDatabase, held_commits: RawSql
) -> None:
    """Its outcome is unknown to the caller; the server continues, and here it commits."""
    with pytest.raises(OutcomeUnknown):
        await short_timeouts.write(lambda transaction: add_row(transaction, "a"))

    assert await committed_rows(short_timeouts) == {}
    await held_commits.run("SELECT pg_advisory_unlock(1)")
    await until_async(lambda: committed_rows(short_timeouts))
    assert await committed_rows(short_timeouts) == {"a": ""}
    await until(lambda: short_timeouts.connections().abandoned_commits == 0)


@pytest.mark.usefixtures("held_commits")
async def test_one_overdue_commit_does_not_suspend_writes(
    short_timeouts: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If other commits succeed, writes continue beside it."""
    with pytest.raises(OutcomeUnknown):
        await short_timeouts.write(lambda transaction: add_row(transaction, "a"))
    monkeypatch.setattr(engine, "COMMIT_TIMEOUT_SECONDS", 60.0)

    await short_timeouts.write(lambda transaction: transaction.fetch(LOCKED))

    assert not short_timeouts.connections().writes_suspended


async def test_commits_that_hang_in_a_former_primary_do_not_block_writes(
    proxied: PostgresDatabase, proxy: PostgresProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a commit succeeds elsewhere, they no longer keep their places in the pool."""
    monkeypatch.setattr(engine, "COMMIT_TIMEOUT_SECONDS", 0.3)
    proxy.stalls = engine.WRITE_CONNECTIONS_MAX
    outcomes = await asyncio.gather(
        *(
            proxied.write(partial(add_row, name=f"lost {number}"))
            for number in range(engine.WRITE_CONNECTIONS_MAX)
        ),
        return_exceptions=True,
    )
    assert all(isinstance(each, OutcomeUnknown) for each in outcomes), outcomes

    monkeypatch.setattr(engine, "COMMIT_TIMEOUT_SECONDS", 60.0)
    await until(lambda: proxied.connections().abandoned_commits == 0)
    await until(lambda: not proxied.connections().writes_suspended)
    await proxied.write(lambda transaction: add_row(transaction, "kept"))

    assert await committed_rows(proxied) == {"kept": ""}


async def test_an_idle_transaction_loses_its_locks(
    short_timeouts: PostgresDatabase,
) -> None:
    """The server ends a transaction that stops halfway; if its process lives, it is repeated."""
    attempts = 0

    async def work(transaction: Transaction) -> None:
        nonlocal attempts
        attempts += 1
        if attempts > 1:
            await transaction.fetch(STAY_IDLE)
        await add_row(transaction, f"attempt {attempts}")
        if attempts == 1:
            assert isinstance(transaction, PostgresTransaction)
            await until(transaction._connection.is_closed)  # noqa: SLF001 - the server ends it

    await short_timeouts.write(work)

    assert attempts >= 2
    assert await committed_rows(short_timeouts) == {f"attempt {attempts}": ""}
