"""Database addresses: which engine they name."""

from pathlib import Path

import pytest

from ousel.database.addresses import database_at, is_postgres, sqlite_path
from ousel.database.backup import back_up
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


@pytest.mark.parametrize(
    ("url", "hosts_of_environment"),
    [
        ("postgresql:///ousel?host=a,b", ""),
        ("postgresql://ousel@/ousel?sslmode=require&host=a%2Cb", "c"),
        ("postgresql://a/ousel?host=a,b", ""),
        ("postgresql:///ousel", "a,b"),
        ("postgresql://ousel@/ousel", "a,b"),
    ],
)
def test_several_hosts_are_accepted_only_before_the_name_of_the_database(
    url: str, hosts_of_environment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere, a follower would be used as if it were the only host; backups refuse it too."""
    monkeypatch.setenv("PGHOST", hosts_of_environment)

    for use in (database_at, lambda given: back_up(given, tmp_path / "backup")):
        with pytest.raises(SettingError, match=r"--database or OUSEL.*HOST1,HOST2"):
            use(url)


@pytest.mark.parametrize(
    "url", ["postgresql:///ousel?host=/run", "postgresql://a,b/ousel", "postgresql://a"]
)
def test_hosts_of_the_environment_are_ignored_if_the_address_has_its_own(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the drivers do it."""
    monkeypatch.setenv("PGHOST", "a,b")

    assert isinstance(database_at(url), PostgresDatabase)


@pytest.mark.parametrize("url", ["mysql://db/ousel", "sqlite://ousel.db", "http://db", "", "."])
def test_what_names_no_database_is_refused(url: str) -> None:
    """Neither an unknown scheme nor an empty address becomes the name of a file."""
    with pytest.raises(SettingError, match=r"--database or OUSEL_DATABASE_URL\) must be"):
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
    with pytest.raises(SettingError, match=r"--database or OUSEL.*escaped") as raised:
        database_at(f"postgresql://ousel:{rest}")

    assert "secret" not in str(raised.value)
