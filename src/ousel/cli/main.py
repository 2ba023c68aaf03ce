"""The `ousel` command."""

import io
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer

from ousel.cli.accounts import accounts
from ousel.cli.backups import backup, restore
from ousel.cli.bench import bench
from ousel.cli.console import run_commands
from ousel.cli.demo import demo
from ousel.cli.export import export
from ousel.cli.operations import migrate, serve, verify
from ousel.cli.partners import apps, keys
from ousel.cli.proxies import bypass_proxies_on_this_machine
from ousel.cli.top import top

OWNER_ONLY_UMASK: Final = 0o077

commands = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - Typer passes the option's value
    if wanted:
        typer.echo(f"ousel {version('ousel')}")
        raise typer.Exit


@commands.callback()
def root(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Ousel: a payments service that anyone can host."""


commands.command()(demo)
commands.command()(serve)
commands.command()(top)
commands.command()(migrate)
commands.command()(verify)
commands.command()(export)
commands.command()(backup)
commands.command()(restore)
commands.command()(bench)
commands.add_typer(accounts, name="account")
commands.add_typer(apps, name="app")
commands.add_typer(keys, name="key")


def main() -> NoReturn:
    """Run the command line, and end with its exit code.

    Databases, backups and exports contain emails and the secrets of second factors, so the files
    that a command creates can be read only by the user who runs it.
    """
    os.umask(OWNER_ONLY_UMASK)
    bypass_proxies_on_this_machine()
    if isinstance(sys.stdout, io.TextIOWrapper):  # the terminal may not be able to show all letters
        sys.stdout.reconfigure(errors="backslashreplace")
    else:  # standard output was closed by whoever started the command
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - for as long as the command runs
    raise SystemExit(run_commands(commands))
