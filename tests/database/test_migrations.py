"""Migrations: from empty to today's schema, the same on both engines, and repeatable."""

import asyncio
import logging
import re
import shutil
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ousel.database
from ousel.accounts.rules import HolderEmail
from ousel.accounts.service import AccountService
from ousel.accounts.verification import verify_identifiers
from ousel.database import schema
from ousel.database.addresses import database_at, is_postgres
from ousel.database.port import Database
from ousel.database.schema import SCHEMA_VERSION, is_supported, migrate, schema_version
from ousel.kernel.account_numbers import account_number
from ousel.kernel.clock import system_clock
from ousel.kernel.errors import DatabaseUnavailable
from ousel.ledger.journal import accounts_after
from ousel.ledger.rules import FIRST_HASH, SYSTEM_ACCOUNT_ID, Account
from tests.support.engines import Engine, Engines
from tests.support.raw_sql import RawSql
from tests.support.waiting import until_async

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Inspector

MIGRATE = """
import asyncio, sys
from ousel.database.schema import migrate
asyncio.run(migrate(sys.argv[1]))
"""

WAITING_FOR_TABLE = "SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'relation'"

Schema = dict[str, dict[str, Any]]


@pytest.fixture
def empty_url(engines: Engines, engine: Engine, tmp_path: Path) -> str:
    """A database with nothing in it."""
    return engines.empty_url(engine, tmp_path)


@pytest.fixture
def both_empty_urls(engines: Engines, tmp_path: Path) -> tuple[str, str]:
    """A database with nothing in it on each engine."""
    return engines.empty_url("sqlite", tmp_path), engines.empty_url("postgresql", tmp_path)


@pytest.mark.one_engine
async def test_a_migration_logs_nothing(empty_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A server that creates its SQLite file begins its log with its own lines."""
    logging.getLogger("alembic").setLevel(logging.NOTSET)
    caplog.set_level(logging.INFO)
    await migrate(empty_url)
    assert caplog.text == ""


async def schema_at(url: str) -> Schema:
    """Return each table's columns, key, indexes and number of checks."""
    from sqlalchemy import create_engine, inspect

    if not is_postgres(url):
        engine = create_engine(f"sqlite:///{url}")
        with engine.connect() as connection:
            schema = dict(_tables(inspect(connection)))
        engine.dispose()
        return schema
    from sqlalchemy.ext.asyncio import create_async_engine

    served = create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://"))
    async with served.connect() as connected:
        schema = await connected.run_sync(lambda each: dict(_tables(inspect(each))))
    await served.dispose()
    return schema


def _tables(inspector: "Inspector") -> Iterator[tuple[str, dict[str, Any]]]:
    for table in inspector.get_table_names():
        yield (
            table,
            {
                "columns": [
                    (column["name"], str(column["type"]), column["nullable"])
                    for column in inspector.get_columns(table)
                ],
                "key": inspector.get_pk_constraint(table)["constrained_columns"],
                "indexes": sorted(_index(each) for each in inspector.get_indexes(table)),
                "checks": len(inspector.get_check_constraints(table)),
                "foreign keys": inspector.get_foreign_keys(table),
            },
        )


def _index(index: Any) -> tuple[str, tuple[str, ...], bool, str]:
    options = index.get("dialect_options", {})
    where = options.get("sqlite_where", options.get("postgresql_where", ""))
    return (
        index["name"],
        tuple(index["column_names"]),
        bool(index["unique"]),
        re.sub(r"[()\s]|::text", "", str(where)).lower(),
    )


@pytest.mark.slow
async def test_both_engines_get_the_same_schema(both_empty_urls: tuple[str, str]) -> None:
    """After migration, both have the same tables, columns, keys, indexes and checks."""
    schemas = []
    for url in both_empty_urls:
        await migrate(url)
        schemas.append(await schema_at(url))

    on_sqlite, on_postgres = schemas
    assert on_sqlite.keys() == on_postgres.keys()
    assert {"accounts", "entries", "identifiers", "deployment"} <= on_sqlite.keys()
    for table, found in on_sqlite.items():
        assert found == on_postgres[table], table


@pytest.mark.slow
async def test_columns_are_texts_and_64_bit_integers(both_empty_urls: tuple[str, str]) -> None:
    """Money and times are BIGINT, everything else is TEXT, since both engines have these."""
    for url in both_empty_urls:
        await migrate(url)
        for table, found in (await schema_at(url)).items():
            kinds = {kind for _, kind, _ in found["columns"]}
            assert table == "alembic_version" or kinds <= {"TEXT", "BIGINT"}, table


def test_the_version_in_the_code_is_the_last_migration() -> None:
    """SCHEMA_VERSION is Alembic's only head."""
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    folder = Path(ousel.database.__file__).parent / "migrations"
    config.set_main_option("script_location", str(folder))

    assert ScriptDirectory.from_config(config).get_heads() == [SCHEMA_VERSION]


async def test_ousel_may_be_installed_in_any_folder(
    engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The migrations are found even if the path contains a percent sign."""
    folder = tmp_path / "50% off"
    shutil.copytree(Path(ousel.database.__file__).parent / "migrations", folder / "migrations")
    monkeypatch.setattr("ousel.database.schema.__file__", str(folder / "schema.py"))
    url = engines.empty_url("sqlite", tmp_path)

    await migrate(url)

    assert "entries" in await schema_at(url)


def test_newer_schemas_are_supported() -> None:
    """A newer schema only adds something; an older one, or none, lacks something."""
    assert is_supported(SCHEMA_VERSION)
    assert is_supported(f"{int(SCHEMA_VERSION) + 1:04d}")
    assert not is_supported(f"{int(SCHEMA_VERSION) - 1:04d}")
    assert not is_supported(None)


async def test_the_schema_version_can_be_read(empty_url: str) -> None:
    """None for an empty database, today's after a migration."""
    database = database_at(empty_url)
    await database.open()

    assert await schema_version(database, empty_url) is None
    await migrate(empty_url)
    assert await schema_version(database, empty_url) == SCHEMA_VERSION
    await database.close()


@pytest.mark.slow
async def test_migrating_twice_is_harmless(empty_url: str) -> None:
    """A second migration changes neither schema nor data."""
    await migrate(empty_url)
    before = await schema_at(empty_url)
    database = database_at(empty_url)
    await database.open()
    accounts = await database.read(lambda transaction: accounts_after(transaction, "", 10))

    await migrate(empty_url)

    assert await schema_at(empty_url) == before
    assert await database.read(lambda each: accounts_after(each, "", 10)) == accounts
    await database.close()


@pytest.mark.slow
async def test_simultaneous_migrations_are_harmless(empty_url: str) -> None:
    """If three processes migrate one empty database, all succeed, and it is migrated once."""
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", MIGRATE, empty_url, stderr=PIPE, stdout=PIPE
        )
        for _ in range(3)
    ]
    outputs = [await process.communicate() for process in processes]

    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    database = database_at(empty_url)
    await database.open()
    assert await schema_version(database, empty_url) == SCHEMA_VERSION
    assert len(await database.read(lambda each: accounts_after(each, "", 10))) == 1
    await database.close()


async def test_a_database_of_a_newer_ousel_is_not_migrated(database_url: str) -> None:
    """The refusal names both versions, and the version stays."""
    async with RawSql(database_url) as raw_sql:
        await raw_sql.run("UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(
        DatabaseUnavailable, match=f"newer schema 9999; this version of Ousel has {SCHEMA_VERSION}"
    ):
        await migrate(database_url)
    async with RawSql(database_url) as raw_sql:
        assert await raw_sql.run("SELECT version_num FROM alembic_version") == [("9999",)]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://127.0.0.1:1/ousel",
        "postgresql://127.0.0.1:port/ousel",
        "/nowhere/at/all/ousel.db",
    ],
)
async def test_a_database_that_cannot_be_reached_is_unavailable(url: str) -> None:
    """The error is one clear line, not a driver's traceback."""
    with pytest.raises(DatabaseUnavailable, match="cannot be migrated"):
        await migrate(url)


@pytest.mark.slow
async def test_a_missing_database_is_unavailable(both_empty_urls: tuple[str, str]) -> None:
    """If the server has no such database, one clear line names it."""
    url = both_empty_urls[1].replace("/ousel_", "/missing_")

    with pytest.raises(DatabaseUnavailable, match="missing_"):
        await migrate(url)


async def test_a_new_ledger_has_only_the_system_account(database: Database) -> None:
    """Money is issued from one account, which has a valid number and owes nothing yet."""
    accounts = await database.read(lambda transaction: accounts_after(transaction, "", 10))

    assert accounts == [
        Account(
            id=SYSTEM_ACCOUNT_ID,
            username="ousel",
            account_number=account_number(0),
            display_name="Ousel",
            status="active",
            balance=0,
            sequence=0,
            head_hash=FIRST_HASH,
            created_at=0,
            updated_at=0,
        )
    ]


@pytest.mark.slow
async def test_a_migration_behind_a_backup_blocks_nobody(
    both_empty_urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a transaction reads a table, a migration waits shortly for it, again and again.

    In the end it gives up.
    """
    monkeypatch.setattr(schema, "MIGRATION_PAUSE_SECONDS", 0.1)
    _, url = both_empty_urls
    with monkeypatch.context() as patched:
        patched.setattr("alembic.command.upgrade", upgrade_to("0008"))
        await migrate(url)
    async with RawSql(url) as backup, RawSql(url) as server:
        await backup.run("BEGIN")
        await backup.run("SELECT hash FROM sessions")
        with monkeypatch.context() as patched:
            patched.setattr(schema, "MIGRATION_TRIES", 2)
            with pytest.raises(DatabaseUnavailable, match=r"locked a table\. Nothing was changed"):
                await migrate(url)
        migrating = asyncio.create_task(migrate(url))
        await until_async(lambda: server.run(WAITING_FOR_TABLE))
        await server.run("SELECT hash FROM sessions")  # waits until the migration has given way
        assert not migrating.done()
        await backup.run("COMMIT")
        await migrating


BEFORE_PROOFS = """
    INSERT INTO accounts
        VALUES ('acct_1', 'ada', 'OU050000000001', 'Ada', 'active', 0, 0, '', 0, 0);
    INSERT INTO identifiers VALUES ('@ada', 'acct_1');
    INSERT INTO identifiers VALUES ('OU050000000001', 'acct_1');
    INSERT INTO identifiers VALUES ('ada@example.com', 'acct_1');
    INSERT INTO holders VALUES ('acct_1', 'ada@example.com', NULL)
"""


async def test_accounts_keep_their_email_as_confirmed(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An account that was opened before emails had to be confirmed is still found by its email."""
    with monkeypatch.context() as patched:
        patched.setattr("alembic.command.upgrade", upgrade_to("0006"))
        await migrate(empty_url)
    async with RawSql(empty_url) as raw_sql:
        for statement in BEFORE_PROOFS.split(";"):
            await raw_sql.run(statement)

    await migrate(empty_url)

    database = database_at(empty_url)
    await database.open()
    found = await AccountService(database, system_clock).find_with_email(
        "ada@example.com", param="to"
    )
    assert (found.account.id, found.email) == (
        "acct_1",
        HolderEmail("ada@example.com", is_confirmed=True),
    )
    await database.snapshot(verify_identifiers)
    await database.close()


def upgrade_to(revision: str) -> "Callable[[Config, str], None]":
    """Return what migrates to this version instead of the newest."""
    from alembic.command import upgrade

    return lambda config, _: upgrade(config, revision)
