"""A transaction that certainly did not commit is run again, up to five times in all."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace

import asyncpg
import pytest

from ousel.database.port import Transaction
from ousel.database.postgres import PostgresDatabase
from ousel.database.retries import ATTEMPTS_MAX, TransientFailure, with_retries
from ousel.database.statements import Statement
from ousel.kernel.errors import DatabaseUnavailable
from tests.database.sample_rows import add_row, committed_rows, fetch_rows
from tests.support.postgres_proxy import PostgresProxy
from tests.support.raw_sql import RawSql

LOSE_CONNECTION = Statement(
    "end the own connection", "SELECT pg_terminate_backend(pg_backend_pid())"
)
LOCKED = Statement("lock a row", "SELECT name FROM deployment WHERE name = :name FOR UPDATE")
FAILED = Statement("fail as the server does", "SELECT fail(:state)")

# A sequence keeps counting when its transaction is rolled back, so it counts the attempts.
FAIL_TWICE = (
    "CREATE SEQUENCE calls",
    """
    CREATE FUNCTION fail(state text) RETURNS bigint LANGUAGE plpgsql AS $$
    BEGIN
        IF nextval('calls') <= 2 THEN RAISE EXCEPTION 'try again' USING ERRCODE = state; END IF;
        RETURN currval('calls');
    END $$
    """,
)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between attempts, which are recorded instead of waited for."""
    made: list[float] = []

    async def note(seconds: float) -> None:
        made.append(seconds)

    monkeypatch.setattr(
        "ousel.database.retries.asyncio",
        SimpleNamespace(sleep=note, get_running_loop=asyncio.get_running_loop),
    )
    return made


def failing(times: int, attempts: list[int]) -> Callable[[bool], "asyncio.Future[str]"]:
    async def attempt() -> str:
        attempts.append(len(attempts) + 1)
        if len(attempts) <= times:
            raise TransientFailure(DatabaseUnavailable("Away."))
        return "done"

    return lambda _: asyncio.ensure_future(attempt())


async def test_transient_failures_are_repeated_with_growing_pauses(pauses: list[float]) -> None:
    """Four failures are followed by a success; the pauses grow, with jitter."""
    attempts: list[int] = []

    assert await with_retries(failing(4, attempts)) == "done"

    assert len(attempts) == ATTEMPTS_MAX == 5
    assert len(pauses) == 4
    for number, pause in enumerate(pauses, 1):
        assert 0.01 * 2**number <= pause <= 0.02 * 2**number


async def test_the_fifth_failure_is_the_last(pauses: list[float]) -> None:
    """After five attempts the caller gets the failure."""
    attempts: list[int] = []

    with pytest.raises(DatabaseUnavailable):
        await with_retries(failing(99, attempts))

    assert len(attempts) == 5
    assert len(pauses) == 4


async def test_work_that_took_too_long_is_not_repeated(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After ten seconds a failure is final, because the caller waits for an answer."""
    monkeypatch.setattr("ousel.database.retries.RETRY_SECONDS_MAX", -1.0)
    attempts: list[int] = []

    with pytest.raises(DatabaseUnavailable):
        await with_retries(failing(99, attempts))

    assert (len(attempts), pauses) == (1, [])


async def test_success_is_not_repeated(pauses: list[float]) -> None:
    """Work that succeeds runs once, without a pause."""
    attempts: list[int] = []

    assert await with_retries(failing(0, attempts)) == "done"

    assert (len(attempts), pauses) == (1, [])


@pytest.mark.parametrize("state", ["40001", "40P01", "53100", "58030"])
async def test_work_that_the_server_rolled_back_is_repeated(
    postgres: PostgresDatabase, postgres_url: str, state: str
) -> None:
    """After a conflict, a deadlock, a full or failing disk the whole work is repeated."""
    attempts = 0

    async def work(transaction: Transaction) -> None:
        nonlocal attempts
        attempts += 1
        await add_row(transaction, f"attempt {attempts}")
        await transaction.fetch(FAILED, state=state)

    async with RawSql(postgres_url) as raw_sql:
        for statement in FAIL_TWICE:
            await raw_sql.run(statement)
        await postgres.write(work)

    assert attempts == 3
    assert await committed_rows(postgres) == {"attempt 3": ""}


async def test_a_real_deadlock_is_resolved(postgres: PostgresDatabase, postgres_url: str) -> None:
    """Two transactions that wait for each other both commit in the end."""
    attempts: list[str] = []
    both_hold_one = asyncio.Barrier(2)

    async def work(transaction: Transaction, first: str, second: str) -> None:
        attempts.append(first)
        await transaction.fetch(LOCKED, name=first)
        if len(attempts) <= 2:
            await both_hold_one.wait()
        await transaction.fetch(LOCKED, name=second)
        await add_row(transaction, f"{first} before {second}")

    async with RawSql(postgres_url) as raw_sql:
        await raw_sql.run("INSERT INTO deployment VALUES ('a', ''), ('b', '')")
        await asyncio.gather(
            postgres.write(lambda transaction: work(transaction, "a", "b")),
            postgres.write(lambda transaction: work(transaction, "b", "a")),
        )

    assert len(attempts) >= 3  # whoever begins again may overtake the other, which meets it again
    assert {"a before b", "b before a"} <= set(await committed_rows(postgres))


async def test_a_lost_connection_is_repeated_on_another(postgres: PostgresDatabase) -> None:
    """If the connection ends during the work, nothing remains of it, and it is repeated."""
    attempts = 0

    async def work(transaction: Transaction) -> None:
        nonlocal attempts
        attempts += 1
        await add_row(transaction, f"attempt {attempts}")
        if attempts == 1:
            await transaction.fetch(LOSE_CONNECTION)

    await postgres.write(work)

    assert attempts == 2
    assert await committed_rows(postgres) == {"attempt 2": ""}


@pytest.mark.parametrize(
    "loss",
    [
        ConnectionResetError(),
        TimeoutError(),
        asyncpg.InterfaceError("connection is closed"),
        asyncpg.InternalClientError("another operation is in progress"),
        asyncpg.ConnectionDoesNotExistError("closed in the middle of operation"),
        asyncpg.AdminShutdownError("terminating connection"),
        asyncpg.CannotConnectNowError("the database system is starting up"),
        asyncpg.TooManyConnectionsError("too many clients already"),
        asyncpg.ReadOnlySQLTransactionError("it is a replica now"),
    ],
    ids=lambda loss: type(loss).__name__,
)
async def test_work_is_repeated_however_the_server_is_lost(
    postgres: PostgresDatabase, loss: Exception
) -> None:
    """The driver has many errors for a server that ends, restarts or becomes a standby."""
    attempts = 0

    async def work(transaction: Transaction) -> None:
        nonlocal attempts
        attempts += 1
        await add_row(transaction, f"attempt {attempts}")
        if attempts == 1:
            raise loss

    await postgres.write(work)

    assert await committed_rows(postgres) == {"attempt 2": ""}


async def test_a_connection_that_is_always_lost_is_unavailable(
    postgres: PostgresDatabase, pauses: list[float]
) -> None:
    """After five lost connections the caller gets DatabaseUnavailable with a time to retry."""
    attempts = 0

    async def work(transaction: Transaction) -> None:
        nonlocal attempts
        attempts += 1
        await add_row(transaction, f"attempt {attempts}")
        await transaction.fetch(LOSE_CONNECTION)

    with pytest.raises(DatabaseUnavailable, match="PostgreSQL cannot be reached") as refused:
        await postgres.write(work)

    assert (attempts, len(pauses)) == (5, 4)
    assert refused.value.retry_after_seconds == 1
    assert await committed_rows(postgres) == {}


@pytest.mark.parametrize("how", ["read", "snapshot"])
async def test_a_read_is_repeated_after_a_lost_connection(
    postgres: PostgresDatabase, how: str
) -> None:
    """Reads and snapshots are repeated like writes."""
    attempts = 0

    async def work(transaction: Transaction) -> dict[str, str]:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            await transaction.fetch(LOSE_CONNECTION)
        return await fetch_rows(transaction)

    run = postgres.read if how == "read" else postgres.snapshot
    assert await run(work) == {}
    assert attempts == 2


async def test_connections_lost_while_idle_are_replaced(
    postgres: PostgresDatabase, postgres_url: str
) -> None:
    """A restart of the server between two requests causes no error."""
    await committed_rows(postgres)
    async with RawSql(postgres_url) as raw_sql:
        await raw_sql.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        await postgres.write(lambda transaction: add_row(transaction, "a"))

    assert await committed_rows(postgres) == {"a": ""}


@pytest.mark.parametrize("how", ["read", "snapshot", "write"])
async def test_a_server_that_is_gone_is_unavailable(
    proxied: PostgresDatabase, proxy: PostgresProxy, pauses: list[float], how: str
) -> None:
    """Without a server, every call raises DatabaseUnavailable after five attempts."""
    await proxy.stop()
    run = {"read": proxied.read, "snapshot": proxied.snapshot, "write": proxied.write}[how]

    with pytest.raises(DatabaseUnavailable):
        await run(fetch_rows)

    assert len(pauses) == 4


async def test_a_database_that_cannot_be_opened_is_unavailable(
    postgres_url: str,
) -> None:
    """A database that does not exist is refused clearly."""
    missing = PostgresDatabase(postgres_url.replace("/ousel_", "/missing_"))

    with pytest.raises(DatabaseUnavailable, match="PostgreSQL cannot be reached"):
        await missing.open()
    await missing.close()
