"""A caller that is canceled: its reads end at once, and its writes are never half done."""

import asyncio

import pytest

from ousel.database.port import Database, Transaction
from ousel.database.sqlite import SqliteDatabase
from ousel.database.statements import Statement
from tests.support.engines import Engine
from tests.support.raw_sql import RawSql
from tests.support.slow_commits import commit_slowly
from tests.support.waiting import until_blocked, until_unblocked

COMMIT_SECONDS = 0.2
COUNT = Statement("the number of marks", "SELECT count(*) FROM marks")
ADD = Statement("a mark", "INSERT INTO marks VALUES (1)")
SLOW_COMMITS = f"""
    CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql
    AS 'BEGIN PERFORM pg_sleep({COMMIT_SECONDS}); RETURN NULL; END';
"""
WAIT_AT_COMMIT = """
    CREATE CONSTRAINT TRIGGER waits AFTER INSERT ON marks DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION wait()
"""


@pytest.fixture
async def marks(database: Database, raw_sql: RawSql, engine: Engine) -> Database:
    """A database with a table of marks, whose commits take a while."""
    await raw_sql.run("CREATE TABLE marks (mark INTEGER)")
    if isinstance(database, SqliteDatabase):
        commit_slowly(database, COMMIT_SECONDS)
    else:
        assert engine == "postgresql"
        await raw_sql.run(SLOW_COMMITS)
        await raw_sql.run(WAIT_AT_COMMIT)
    return database


async def test_a_commit_that_has_begun_is_finished(marks: Database, raw_sql: RawSql) -> None:
    """The canceled caller waits for its end, and the connection can be used again."""
    begins_commit = asyncio.Event()

    async def add(transaction: Transaction) -> None:
        await transaction.execute(ADD)
        begins_commit.set()  # the commit is sent before any other task runs

    for number in (1, 2):
        begins_commit.clear()
        writing = asyncio.create_task(marks.write(add))
        await begins_commit.wait()
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing

        assert await raw_sql.run(COUNT.text) == [(number,)]


@pytest.mark.parametrize("engine", ["postgresql"])  # SQLite runs a statement in one step
async def test_a_read_is_canceled_on_the_server(
    marks: Database, raw_sql: RawSql, database_url: str
) -> None:
    """PostgreSQL stops running the statement, and the connection can be used again."""
    await raw_sql.run("BEGIN")
    await raw_sql.run("LOCK TABLE marks IN ACCESS EXCLUSIVE MODE")
    reading = asyncio.create_task(marks.read(lambda transaction: transaction.fetch(COUNT)))
    await until_blocked(database_url)
    reading.cancel()
    await until_unblocked(database_url)
    await raw_sql.run("COMMIT")
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert [tuple(row) for row in await marks.read(lambda each: each.fetch(COUNT))] == [(0,)]
    assert marks.connections().in_use == 0
