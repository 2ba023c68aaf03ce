"""The list of commands: complete, true, and without importing the commands."""

import subprocess
import sys

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


def test_help_imports_no_command() -> None:
    """Listing the commands loads neither the service nor any other command."""
    program = (
        "import sys; from ousel.cli.main import commands;"
        "commands(['--help'], standalone_mode=False);"
        "assert not {'ousel.app', 'ousel.cli.operations', 'jinja2', 'uvicorn'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
