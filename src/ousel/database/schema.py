"""The schema's version and its migration; only the migration imports Alembic, which is slow."""

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ousel.database.addresses import is_postgres, sqlite_path
from ousel.database.port import Database, Transaction
from ousel.database.statements import Statement
from ousel.kernel.errors import DatabaseUnavailable
from ousel.kernel.ids import DIGITS

if TYPE_CHECKING:
    import asyncpg
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncEngine

SCHEMA_VERSION: Final = "0015"

# A migration that waits for a table makes all later statements on that table wait too. Therefore
# it waits for less time than they do (see `postgres`), and tries again later.
TABLE_LOCK_SECONDS: Final = 1
MIGRATION_TRIES: Final = 30
MIGRATION_PAUSE_SECONDS: Final = 3.0

_MIGRATION_LOCK: Final = 0x6F7573656C  # held by whoever migrates a PostgreSQL database
_LOCK_NOT_AVAILABLE: Final = "55P03"

TABLES = {
    "sqlite": Statement(
        "the names of all tables in SQLite, without its internal tables",
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
    ),
    "postgres": Statement(
        "the names of all tables in PostgreSQL",
        "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()",
    ),
}
OUSEL_TABLES: Final = {"alembic_version", "entries"}  # every version has these tables
VERSION = Statement("the version of the schema", "SELECT version_num FROM alembic_version")
# Ids must sort by their bytes. Then they sort by time, and in the same order as in Python, where
# verification compares them. Most collations do so, but not those that sort a pair of letters as
# one letter, as Czech does with "ch".
ENCODING_AND_ORDER = {
    "sqlite": Statement(
        "the encoding of an SQLite file, and whether it sorts ids by their bytes: always",
        "SELECT 'UTF8', TRUE",
    ),
    "postgres": Statement(
        "the encoding of a PostgreSQL database, and whether it sorts ids by their bytes",
        f"WITH digits AS (SELECT unnest(string_to_array('{DIGITS}', NULL)) AS digit),"
        " pairs AS (SELECT one.digit || other.digit AS pair FROM digits AS one, digits AS other)"
        " SELECT current_setting('server_encoding'), string_agg(pair, '' ORDER BY pair)"
        " = string_agg(pair, '' ORDER BY pair COLLATE \"C\") FROM pairs",
    ),
}


async def schema_version(database: Database, url: str) -> str | None:
    """Return the version of the database's schema, or None if Ousel has no tables there yet.

    Raises DatabaseUnavailable if another program migrates this database with Alembic or, on
    SQLite, has any tables in it. On PostgreSQL, other tables may exist as well.
    """
    table_names = TABLES[_engine(url)]

    async def version(transaction: Transaction) -> str | None:
        tables = {name for (name,) in await transaction.fetch(table_names)}
        rows = await transaction.fetch(VERSION) if tables >= OUSEL_TABLES else []
        if rows:
            return str(rows[0][0])
        if "alembic_version" in tables or (tables and not is_postgres(url)):
            raise DatabaseUnavailable(
                "The database contains another program's tables: use a separate one for Ousel."
            )
        return None

    return await database.read(version)


async def check_texts(database: Database, url: str) -> None:
    """Refuse a database that cannot store all texts, or does not sort ids by their bytes."""
    statement = ENCODING_AND_ORDER[_engine(url)]
    [(encoding, in_order)] = await database.read(lambda each: each.fetch(statement))
    _check_encoding_and_order(encoding, in_order=in_order)


async def check_distribution(database: Database) -> None:
    """Refuse a database on Citus whose tables were distributed only in part."""
    if not database.is_distributed():
        return
    from ousel.database import citus

    if not await database.read(citus.is_complete):
        raise DatabaseUnavailable(
            "Only a part of the database is distributed: run 'ousel migrate --distribute' again."
        )


def is_supported(version: str | None) -> bool:
    """Return whether Ousel can use this schema: its own or a newer one (migrations only add)."""
    return version is not None and version >= SCHEMA_VERSION


async def migrate(url: str) -> None:
    """Migrate the database at this address, empty or of an older version, to the current schema.

    Raises DatabaseUnavailable if it cannot be reached or was migrated by a newer version of Ousel.
    """
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it logs even when it is imported
    from alembic.util import CommandError
    from sqlalchemy.exc import DBAPIError

    try:
        if is_postgres(url):
            await _migrate_postgres(url)
        else:
            _migrate_sqlite(url)
    except (OSError, DBAPIError, CommandError) as error:
        reason = str(error).partition("\n")[0]
        raise DatabaseUnavailable(f"The database cannot be migrated: {reason}.") from error


async def distribute(url: str, *, only_if_distributed: bool = False) -> list[str]:
    """Distribute the tables of the schema over a Citus cluster; return which were distributed now.

    Tables that are distributed already stay as they are. With `only_if_distributed`, do nothing
    unless there are such tables. Without it, raise DatabaseUnavailable if the database is not
    PostgreSQL with the Citus extension.
    """
    if not is_postgres(url):
        if only_if_distributed:
            return []
        raise DatabaseUnavailable("An SQLite database is one file: it cannot be distributed.")
    import asyncpg

    from ousel.database import citus
    from ousel.database.primary import Primary

    try:
        connection = await Primary(url).connect()
        try:
            if only_if_distributed and not await citus.is_distributed(connection):
                return []
            return await citus.distribute(connection)
        finally:
            await connection.close()
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise DatabaseUnavailable(f"The tables cannot be distributed: {reason}.") from error


def _engine(url: str) -> str:
    return "postgres" if is_postgres(url) else "sqlite"


async def _migrate_postgres(url: str) -> None:
    import asyncpg
    from sqlalchemy.ext.asyncio import create_async_engine

    from ousel.database.primary import Primary

    failures = (
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,
        ValueError,
    )

    async def connect() -> "asyncpg.Connection[Any]":
        try:
            return await Primary(url).connect()
        except failures as error:
            raise ConnectionError(error) from error

    engine = create_async_engine("postgresql+asyncpg://", async_creator=connect)
    try:
        for attempt in range(MIGRATION_TRIES):
            if attempt:
                await asyncio.sleep(MIGRATION_PAUSE_SECONDS)
            if await _try_to_migrate(engine):
                return
        raise DatabaseUnavailable(
            "The database cannot be migrated: another session, such as a backup, has locked a"
            " table. Nothing was changed."
        )
    finally:
        await engine.dispose()


async def _try_to_migrate(engine: "AsyncEngine") -> bool:
    """Migrate a PostgreSQL database; return False if another session has locked a table."""
    from sqlalchemy.exc import DBAPIError

    try:
        async with engine.begin() as connection:
            await connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
            found = await connection.exec_driver_sql(ENCODING_AND_ORDER["postgres"].text)
            encoding, in_order = list(found.one())
            _check_encoding_and_order(encoding, in_order=in_order)
            await connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{TABLE_LOCK_SECONDS}s'")
            await connection.run_sync(_upgrade)
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
            return False
        raise
    return True


def _check_encoding_and_order(encoding: str, *, in_order: bool) -> None:
    if encoding != "UTF8":
        raise DatabaseUnavailable(
            f"The database has the encoding {encoding}, but texts need UTF8: create the"
            " database with the encoding UTF8."
        )
    if not in_order:
        raise DatabaseUnavailable(
            "The database's collation does not sort ids by their bytes: create the database with"
            ' the collation "C".'
        )


def _migrate_sqlite(url: str) -> None:
    from sqlalchemy import URL, create_engine

    engine = create_engine(URL.create("sqlite", database=str(sqlite_path(url))))
    try:
        with engine.begin() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            _upgrade(connection)
    finally:
        engine.dispose()


def _upgrade(connection: "Connection") -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext

    found = MigrationContext.configure(connection).get_current_revision()
    if found is not None and found > SCHEMA_VERSION:
        raise DatabaseUnavailable(
            f"The database has the newer schema {found}; this version of Ousel has"
            f" {SCHEMA_VERSION}. Nothing was changed."
        )
    config = Config()
    scripts = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", scripts.replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
