"""Database addresses: which engine one names, and the engine it opens."""

from pathlib import Path
from typing import Final

from ousel.database.hosts import check_address
from ousel.database.port import Database
from ousel.kernel.settings import SettingError

SQLITE: Final = "sqlite:///"
POSTGRES: Final = ("postgresql://", "postgres://")


def is_postgres(url: str) -> bool:
    """Say whether the address is one of PostgreSQL."""
    return url.startswith(POSTGRES)


def sqlite_path(url: str) -> Path:
    """Return the file that an SQLite address, or a plain path, stands for.

    Nothing in it is escaped, and no name means anything else: ":memory:" is a file too.
    """
    if "://" in url and not url.startswith(SQLITE):
        raise SettingError(
            "OUSEL_DATABASE_URL must be postgresql://…, sqlite:///FILE or the path of a file."
        )
    return Path(url.removeprefix(SQLITE)).absolute()


def may_exist(url: str) -> bool:
    """Say whether there may be a database: there is none where neither file nor log of it is."""
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
