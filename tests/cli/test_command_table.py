"""The list of commands: complete, true, and without importing the commands."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from ousel.cli.command_table import load_commands
from ousel.cli.main import commands


def test_each_line_of_help_is_the_command_s_own() -> None:
    """What `ousel --help` lists is what the command says of itself."""
    table = get_command(commands)
    listed = {name: each.help for name, each in table.commands.items()}  # type: ignore[attr-defined]
    own = {
        name: each.get_short_help_str(limit=1_000).removesuffix(".") + "."
        for name, each in load_commands().items()
    }
    assert listed == own


def test_help_imports_little() -> None:
    """Listing the commands loads neither a command nor what only commands need."""
    loaded = modules_loaded_by("--help")

    assert "ousel.cli.command_table" in loaded
    assert not {"ousel.app", "ousel.cli.serve", "ousel.database"} & loaded
    assert not {"asyncio", "jinja2", "pydantic", "rich", "uvicorn"} & loaded


@pytest.mark.slow
def test_showing_an_account_imports_no_server(tmp_path: Path) -> None:
    """A short command loads what it uses, and nothing of the service."""
    database = f"--database={tmp_path / 'ousel.db'}"
    modules_loaded_by("migrate", database)
    modules_loaded_by(
        "account", "create", "--username=ada", "--email=a@b.example", "--name=A", database
    )

    loaded = modules_loaded_by("account", "show", "@ada", database)

    assert "ousel.accounts.service" in loaded
    assert not {"ousel.app", "ousel.mail", "ousel.people", "ousel.sealed_log"} & loaded
    assert not {"alembic", "argon2", "cryptography", "jinja2", "uvicorn"} & loaded
    assert "pydantic" not in loaded


@pytest.mark.slow
def test_a_server_imports_only_what_it_serves_with() -> None:
    """What only some commands or some requests need would cost each server time and memory."""
    loaded = modules_loaded_by("serve", "--help")

    assert "ousel.app.ousel" in loaded
    assert not {"alembic", "cryptography", "pydantic", "rich", "sqlalchemy", "webauthn"} & loaded


def modules_loaded_by(*arguments: str) -> set[str]:
    """Run a command in a process of its own, and return the modules that it has imported."""
    program = (
        "import sys; from ousel.cli.main import commands;"
        "commands(sys.argv[1:], standalone_mode=False);"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())
