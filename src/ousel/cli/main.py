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
from ousel.cli.console import run_explained
from ousel.cli.demo import demo
from ousel.cli.export import export
from ousel.cli.operations import migrate, serve, verify_books
from ousel.cli.partners import apps, keys
from ousel.cli.top import top

OWNER_ALONE: Final = 0o077  # the permissions that no new file has

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
commands.command("verify")(verify_books)
commands.command()(export)
commands.command()(backup)
commands.command()(restore)
commands.command()(bench)
commands.add_typer(accounts, name="account")
commands.add_typer(apps, name="app")
commands.add_typer(keys, name="key")


def main() -> NoReturn:
    """Run the command line, and end with its exit code.

    A database, a backup or an export holds people's emails and second factors' secrets: whatever
    file a command makes is for the user whom it runs as, and for nobody else on the machine.
    """
    os.umask(OWNER_ALONE)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name may have letters that a terminal has not
        sys.stdout.reconfigure(errors="backslashreplace")
    else:  # there is none: whoever started the command closed it
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - for as long as the command runs
    raise SystemExit(run_explained(commands))
