"""Database addresses: which engine they name."""

from pathlib import Path

import pytest

from ousel.database.addresses import database_at, is_postgres, sqlite_path
from ousel.database.postgres import PostgresDatabase
from ousel.database.sqlite import SqliteDatabase
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
    """An SQLite address or a plain path names that file, whatever characters its name has."""
    assert not is_postgres(url)
    assert sqlite_path(url) == Path(path).absolute()
    assert isinstance(database_at(url), SqliteDatabase)


@pytest.mark.parametrize("url", ["postgresql://db/ousel", "postgres://user@db:5432/ousel"])
def test_a_server_is_postgresql(url: str) -> None:
    """Both spellings of the scheme are PostgreSQL."""
    assert is_postgres(url)
    assert isinstance(database_at(url), PostgresDatabase)


@pytest.mark.parametrize("url", ["mysql://db/ousel", "sqlite://ousel.db", "http://db"])
def test_other_schemes_are_refused(url: str) -> None:
    """An address with an unknown scheme does not become the name of a file."""
    with pytest.raises(SettingError, match=r"^OUSEL_DATABASE_URL must be"):
        database_at(url)


@pytest.mark.parametrize(
    "rest",
    [
        *("secret#1@db/ousel", "secret/1@db/ousel", "secret?1@db/ousel"),
        *("secret@1@db/ousel", "a@secret:b@db/ousel"),
        *("secret@db:port/ousel", "secret@[::1/ousel", "secret@db:70000/ousel"),
        *("secret@one:5432,other:70000/ousel", f"secret@db:{'9' * 5000}/ousel"),
    ],
)
def test_the_error_about_an_invalid_address_does_not_show_its_password(rest: str) -> None:
    """An unescaped password or an invalid port is refused before anything connects."""
    with pytest.raises(SettingError, match="escaped") as raised:
        database_at(f"postgresql://ousel:{rest}")

    assert "secret" not in str(raised.value)
