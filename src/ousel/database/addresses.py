"""Database addresses: parsing them, and the database that each of them names."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from ousel.database.hosts import check_address
from ousel.database.port import Database
from ousel.kernel.settings import NAMES_OF_FOLDERS, SettingError

SQLITE: Final = "sqlite:///"
POSTGRES: Final = ("postgresql://", "postgres://")


def is_postgres(url: str) -> bool:
    """Return whether the address is a PostgreSQL URL."""
    return url.startswith(POSTGRES)


def sqlite_path(url: str) -> Path:
    """Return the file that an SQLite address or a plain path names.

    The path is taken as it is written: nothing is unescaped, and even ":memory:" names a file.
    """
    path = Path(url.removeprefix(SQLITE))
    if ("://" in url and not url.startswith(SQLITE)) or path.name in NAMES_OF_FOLDERS:
        raise SettingError(
            "The database's address (--database or OUSEL_DATABASE_URL) must be postgresql://…,"
            " sqlite:///FILE or the path of a file."
        )
    return path.absolute()


def database_may_exist(url: str) -> bool:
    """Return False for an SQLite file if neither the file nor its write-ahead log exists."""
    if is_postgres(url):
        return True
    from ousel.database.sqlite import wal_path

    path = sqlite_path(url)
    return path.exists() or wal_path(path).exists()


def database_at(url: str) -> Database:
    """Return the database at this address, not yet open."""
    if is_postgres(url):
        check_address(url)
        from ousel.database.postgres import PostgresDatabase

        return PostgresDatabase(url)
    from ousel.database.sqlite import SqliteDatabase

    return SqliteDatabase(sqlite_path(url))


@asynccontextmanager
async def open_database(url: str) -> AsyncIterator[Database]:
    """Open the database at this address until the block ends."""
    database = database_at(url)
    await database.open()
    try:
        yield database
    finally:
        await database.close()
