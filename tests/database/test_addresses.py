"""Database addresses: which engine they name."""

from pathlib import Path

import pytest

from ousel.database.addresses import database_at, is_postgres, sqlite_path
from ousel.database.postgres import PostgresDatabase
from ousel.database.sqlite import SqliteDatabase
from ousel.kernel.errors import DatabaseUnavailable
from ousel.kernel.settings import SettingError


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///ousel.db", "ousel.db"),
        ("sqlite:////var/lib/ousel.db", "/var/lib/ousel.db"),
        ("ousel.db", "ousel.db"),
        ("/var/lib/ousel.db", "/var/lib/ousel.db"),
        ("sqlite:///what?50%25#.db", "what?50%25#.db"),
        (":memory:", ":memory:"),
    ],
)
def test_a_file_is_sqlite(url: str, path: str) -> None:
    """An SQLite address or a plain path is that file, whatever stands in its name."""
    assert not is_postgres(url)
    assert sqlite_path(url) == Path(path).absolute()
    assert isinstance(database_at(url), SqliteDatabase)


@pytest.mark.parametrize("url", ["postgresql://db/ousel", "postgres://user@db:5432/ousel"])
def test_a_server_is_postgresql(url: str) -> None:
    """Both spellings of the scheme are PostgreSQL."""
    assert is_postgres(url)
    assert isinstance(database_at(url), PostgresDatabase)


@pytest.mark.parametrize("url", ["mysql://db/ousel", "sqlite://ousel.db", "http://db"])
def test_other_schemes_are_refused_by_the_variable(url: str) -> None:
    """An address of another engine, or a slip in the scheme, creates no file of that name."""
    with pytest.raises(SettingError, match=r"^OUSEL_DATABASE_URL must be"):
        database_at(url)


async def test_a_server_that_nobody_answers_for_is_unavailable() -> None:
    """An address that leads nowhere is one clear refusal."""
    with pytest.raises(DatabaseUnavailable, match="PostgreSQL cannot be reached"):
        await database_at("postgresql://127.0.0.1:1/ousel").open()


@pytest.mark.parametrize(
    "rest",
    [
        *("secret#1@db/ousel", "secret/1@db/ousel", "secret?1@db/ousel"),
        *("secret@db:port/ousel", "secret@[::1/ousel", "secret@db:70000/ousel"),
        *("secret@one:5432,other:70000/ousel", f"secret@db:{'9' * 5000}/ousel"),
    ],
)
def test_an_address_that_cannot_be_read_is_told_without_its_secret(rest: str) -> None:
    """A password that is not escaped, a port that is none: before a server is looked for."""
    with pytest.raises(SettingError, match="escaped") as raised:
        database_at(f"postgresql://ousel:{rest}")

    assert "secret" not in str(raised.value)
