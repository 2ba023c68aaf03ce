"""Each error that Citus may report while a server fails becomes a refusal that callers know.

PostgreSQL raises the errors here; tests/citus kills servers.
"""

from collections.abc import AsyncIterator
from functools import partial

import pytest

from ousel.database import citus, retries
from ousel.database.port import Transaction
from ousel.database.postgres import PostgresDatabase
from ousel.database.statements import Statement, Table
from ousel.kernel.errors import DatabaseUnavailable, OutcomeUnknown
from tests.support.raw_sql import RawSql

# The codes of broken connections, shutdowns and full servers, and those of Citus' own errors.
CODES = (
    *("08000", "08001", "08006", "57P01", "57P02", "57P03", "57014", "53300", "58000"),
    *("25001", "25P02", "40001", "40P01", "55000", "55006", "55P03", "XX000", "CIINF"),
)
FAIL = Statement("fail with this code", "SELECT fail(:code)")
FAILURES = Table("failures", key=("code text",), columns=())
SCHEMA = (
    "CREATE TABLE failures (code text)",
    """CREATE FUNCTION fail(code text) RETURNS void LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'failed' USING ERRCODE = code; END $$""",
    """CREATE FUNCTION fail_at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM fail(NEW.code); RETURN NULL; END $$""",
    """CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON failures
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail_at_commit()""",
)


@pytest.fixture
async def database(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PostgresDatabase]:
    """A PostgreSQL database that is used like one on Citus, and has a function that fails."""

    async def is_distributed(_: object) -> bool:
        return True

    monkeypatch.setattr(citus, "is_distributed", is_distributed)
    monkeypatch.setattr(retries, "RETRY_SECONDS_MAX", -1.0)  # one attempt
    async with RawSql(postgres_url) as raw_sql:
        for statement in SCHEMA:
            await raw_sql.run(statement)
    opened = PostgresDatabase(postgres_url)
    await opened.open()
    yield opened
    await opened.close()


async def test_a_statement_that_fails_is_refused(database: PostgresDatabase) -> None:
    """The refusal says that nothing was written."""
    for code in CODES:
        for run in (database.read, database.write):
            with pytest.raises(DatabaseUnavailable):
                await run(partial(_fail, code))


async def test_a_commit_that_fails_is_refused(database: PostgresDatabase) -> None:
    """If the code does not tell whether the commit took effect, neither does the refusal."""
    for code in CODES:
        with pytest.raises((DatabaseUnavailable, OutcomeUnknown)):
            await database.write(partial(_fail_at_commit, code))


async def _fail(code: str, transaction: Transaction) -> None:
    await transaction.fetch(FAIL, code=code)


async def _fail_at_commit(code: str, transaction: Transaction) -> None:
    await transaction.insert(FAILURES, [(code,)])
