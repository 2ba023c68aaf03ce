"""The database's password is shown neither to other users of the machine nor in errors."""

import os
from pathlib import Path

import httpx2
import pytest

from ousel.database.backup import BackupFailed, back_up, restore
from tests.cli.commands import assert_fails, ousel, ousel_process
from tests.support.engines import Engines
from tests.support.ports import free_port
from tests.support.server import Server

PASSWORD = "planted%2Fdatabase%40password"
PLAIN = "planted/database@password"
TOOL = """#!/bin/sh
case "$1" in --list)
  for table in alembic_version entries; do echo "1; 2 3 TABLE public $table ousel"; done; exit ;;
esac
printf '%s\\n' "$@" > {folder}/arguments
printf '%s' "$PGPASSWORD" > {folder}/password
for argument in "$@"; do
    case "$argument" in --file=*) : > "${{argument#--file=}}" ;; esac
done
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with fake PostgreSQL tools that record how they were called."""
    for name in ("pg_dump", "pg_restore"):
        (tmp_path / name).write_text(TOOL.format(folder=tmp_path))
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


@pytest.mark.parametrize(
    "hosts", ["db.internal", "db.internal:6543", "one.internal:5432,two.internal:5432"]
)
def test_tools_are_handed_the_password_where_no_list_of_processes_shows_it(
    tools: Path, hosts: str
) -> None:
    """pg_dump and pg_restore find it in their environment; the address has all the rest."""
    url = f"postgresql://ousel:{PASSWORD}@{hosts}/books?sslmode=require"

    for tool in (back_up, restore):
        tool(url, tools / "backup")
        arguments = (tools / "arguments").read_text()
        assert (tools / "password").read_text() == PLAIN
        assert "planted" not in arguments
        assert f"postgresql://ousel@{hosts}/books?" in arguments
        assert "sslmode=require" in arguments


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql:///books?user=ousel&password={PASSWORD}&host=/run/postgresql",
        f"postgresql://db.internal?user=ousel&pass%77ord={PASSWORD}",
        f"postgresql://one.internal,two.internal/books?password=other&password={PASSWORD}",
        f"postgresql://ousel:{PASSWORD}@db.internal/books?password=planted",
    ],
)
def test_a_password_in_the_query_is_handed_over_alike(tools: Path, url: str) -> None:
    """Of several passwords, the tools get the one that the server uses."""
    back_up(url, tools / "backup")

    arguments = (tools / "arguments").read_text()
    assert (tools / "password").read_text() == PLAIN
    assert "planted" not in arguments
    assert "other" not in arguments
    assert arguments.count("user=ousel") == url.count("user=ousel")
    assert arguments.count("host=/run") == url.count("host=/run")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ousel:planted/slash@db/books",
        "postgresql://ousel:planted?mark@db/books",
        "postgresql://ousel:planted#sign@db/books",
        "postgresql://ousel@db/books?sslpassword=planted",
    ],
)
def test_a_command_is_refused_if_the_password_cannot_be_hidden(tools: Path, url: str) -> None:
    """The command is refused if the password cannot be kept out of the arguments."""
    with pytest.raises(BackupFailed) as failed:
        back_up(url, tools / "backup")

    assert "planted" not in str(failed.value)
    assert not (tools / "arguments").exists()


def test_an_address_without_a_password_is_passed_on_as_it_is(tools: Path) -> None:
    """Without a password, none is passed."""
    for url in ("postgresql://ousel@db/books", "postgresql:///books?host=/run/postgresql"):
        (tools / "backup").unlink(missing_ok=True)
        back_up(url, tools / "backup")
        assert (tools / "password").read_text() == ""
        assert f"--dbname={url}" in (tools / "arguments").read_text()


@pytest.mark.parametrize(
    "credentials", [PASSWORD, "planted/slash", "planted:colon", "planted@at", "planted]bracket"]
)
@pytest.mark.parametrize("command", ["migrate", "verify", "serve", "account list"])
def test_a_database_out_of_reach_does_not_tell_its_password(credentials: str, command: str) -> None:
    """Not even a part is shown if the password makes the address invalid."""
    url = f"postgresql://ousel:{credentials}@127.0.0.1:{free_port()}/books"

    outcome = ousel(*command.split(), database=url)

    assert outcome.exit_code == 1
    assert outcome.errors.startswith("ousel: ")
    assert "planted" not in outcome.errors + outcome.output


@pytest.mark.slow
def test_a_command_takes_its_database_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the variable is set as well, the command is refused."""
    file = tmp_path / "database_url"
    file.write_text(f"sqlite:///{tmp_path / 'ousel.db'}\n")
    monkeypatch.setenv("OUSEL_DATABASE_URL_FILE", str(file))

    both = ousel_process("migrate", database="other.db")
    one = ousel_process("migrate", database="")

    assert_fails(both, "OUSEL_DATABASE_URL and OUSEL_DATABASE_URL_FILE are both set")
    assert one.exit_code == 0, one.errors
    assert (tmp_path / "ousel.db").exists()


class ServerFromFile(Server):
    """A server that gets its database from the environment only."""

    def __init__(self, file: Path, *options: str) -> None:
        super().__init__("", *options, OUSEL_DATABASE_URL_FILE=str(file))
        place = self._command.index("--database")
        del self._command[place : place + 2]


@pytest.mark.slow
def test_several_processes_take_their_database_from_a_file(
    engines: Engines, tmp_path: Path
) -> None:
    """The server and its workers find it there."""
    url = engines.fresh_url("postgresql", tmp_path)
    file = tmp_path / "database_url"
    file.write_text(url)

    with ServerFromFile(file, "--workers=2") as server:
        assert httpx2.get(f"{server.origin}/readyz", verify=False).status_code == 200
    engines.give_back(url)
