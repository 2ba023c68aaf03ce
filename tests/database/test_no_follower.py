"""Commits wait for a follower that is gone: reads continue, and writes are refused at once."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from ousel.database import postgres as engine
from ousel.database import suspension
from ousel.database.port import Transaction
from ousel.database.postgres import PostgresDatabase
from ousel.database.statements import Statement
from ousel.kernel.errors import DatabaseUnavailable, OutcomeUnknown
from tests.database.sample_rows import add_row, committed_rows
from tests.support.postgres_server import PostgresServer
from tests.support.raw_sql import RawSql
from tests.support.waiting import until, until_async

pytestmark = pytest.mark.slow

WRITERS = 40
PROBES_SEEN_MIN = 5
BACKENDS_MAX = 10  # as the documentation says
CLEARED = Statement("remove all rows", "DELETE FROM deployment")
NO_CHANGE = "SELECT pg_logical_emit_message(true, 'test', '')"  # but its commit is logged
WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
BACKENDS = """
    SELECT count(*), count(*) FILTER (WHERE query LIKE '%emit_message%' AND state = 'active')
    FROM pg_stat_activity WHERE application_name = 'ousel'
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL server for these tests."""
    with PostgresServer() as running:
        yield running


@pytest.fixture(scope="module")
def server_url(server: PostgresServer) -> str:
    """A database on it."""
    return server.fresh_url()


@pytest.fixture
async def database(
    server: PostgresServer, server_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PostgresDatabase]:
    """The database, empty and opened with short timeouts; no follower is needed in the end.

    They are long enough for a busy machine to begin all commits.
    """
    monkeypatch.setattr(engine, "COMMIT_TIMEOUT_SECONDS", 3.0)
    monkeypatch.setattr(suspension, "PROBE_SECONDS_MAX", 0.5)
    opened = PostgresDatabase(server_url)
    await opened.open()
    await opened.write(lambda transaction: transaction.execute(CLEARED))
    yield opened
    await server.require_followers("")
    await opened.close()


async def lose_followers(server: PostgresServer, url: str) -> None:
    """Let commits wait for a standby that does not exist; the server soon notices."""
    await server.require_followers("nobody")

    async def hangs() -> bool:
        async with RawSql(url) as raw_sql, RawSql(url) as observer:
            committing = asyncio.create_task(raw_sql.run(NO_CHANGE))
            waits: list[Any] = []
            while not committing.done() and not waits:
                waits = await observer.run(WAITING)
            committing.cancel()
            await asyncio.wait({committing})
            return bool(waits)

    await until_async(hangs)


async def open_write_connections(database: PostgresDatabase) -> None:
    """Open all connections for writes, so that later as many commits can begin at once."""
    all_open = asyncio.Barrier(engine.WRITE_CONNECTIONS_MAX)

    async def meet(_: Transaction) -> None:
        await all_open.wait()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(engine.WRITE_CONNECTIONS_MAX):
            tasks.create_task(database.write(meet))


async def write_row(database: PostgresDatabase, name: str) -> str:
    """Add a row, and return the refusal's code or nothing."""
    try:
        await database.write(lambda transaction: add_row(transaction, name))
    except (DatabaseUnavailable, OutcomeUnknown) as refusal:
        return refusal.code
    return ""


async def test_reads_continue_while_commits_hang(
    server: PostgresServer, database: PostgresDatabase, server_url: str
) -> None:
    """Writes are refused unwritten; the server has at most ten backends, one of them a probe."""
    await open_write_connections(database)
    await lose_followers(server, server_url)
    names = [f"row {number:02d}" for number in range(WRITERS)]
    writes = asyncio.gather(*(write_row(database, name) for name in names))
    seen: list[tuple[int, int]] = []
    async with RawSql(server_url) as raw_sql, asyncio.timeout(240):
        while not writes.done() or sum(probes for _, probes in seen) < PROBES_SEEN_MIN:
            assert await committed_rows(database) == {}
            seen += [(all_, probes) for all_, probes in await raw_sql.run(BACKENDS)]
            await asyncio.sleep(0.05)
        codes = dict(zip(names, await writes, strict=True))

        assert database.connections().writes_suspended
        assert await write_row(database, "refused") == "database_unavailable"
        assert database.connections().abandoned_commits == engine.WRITE_CONNECTIONS_MAX
        await server.require_followers("")
        await until(lambda: not database.connections().writes_suspended)
        assert await write_row(database, "resumed") == ""
        await until(lambda: database.connections().abandoned_commits == 0)
        seen += [(all_, probes) for all_, probes in await raw_sql.run(BACKENDS)]

    assert max(backends for backends, _ in seen) <= BACKENDS_MAX == engine.CONNECTIONS_MAX
    assert max(probes for _, probes in seen) == 1
    unknown = [name for name, code in codes.items() if code == "outcome_unknown"]
    assert len(unknown) == engine.WRITE_CONNECTIONS_MAX
    assert list(await committed_rows(database)) == ["resumed", *unknown]


async def test_the_commit_of_a_canceled_caller_is_not_canceled(
    server: PostgresServer, database: PostgresDatabase, server_url: str
) -> None:
    """A canceled commit would take effect without a follower; this one waits for it."""
    await lose_followers(server, server_url)
    committing = asyncio.Event()

    async def write() -> None:
        await database.write(
            lambda transaction: add_row(transaction, "a"), before_commit=committing.set
        )

    caller = asyncio.create_task(write())
    async with RawSql(server_url) as raw_sql:
        await committing.wait()
        waiting = f"{WAITING} AND query = 'COMMIT'"
        await until_async(lambda: raw_sql.run(waiting))
        caller.cancel()
        await asyncio.wait({caller})
        await until(lambda: database.connections().writes_suspended)
        assert await raw_sql.run(waiting)
    assert caller.cancelled()
    assert await committed_rows(database) == {}

    await server.require_followers("")
    await until_async(lambda: committed_rows(database))
