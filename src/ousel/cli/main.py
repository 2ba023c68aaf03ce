"""The `ousel` command."""

import io
import logging
import os
import sys
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer

from ousel.cli.command_table import CommandTable
from ousel.cli.console import run_commands
from ousel.cli.plain_parameters import convert_without_pydantic
from ousel.cli.proxies import bypass_proxies_on_this_machine
from ousel.kernel.garbage_collection import collect_less_often
from ousel.kernel.logs import LOGGER_NAME

OWNER_ONLY_UMASK: Final = 0o077

convert_without_pydantic()
commands = typer.Typer(
    cls=CommandTable,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - Typer passes the option's value
    if wanted:
        from importlib.metadata import version

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


def main() -> NoReturn:
    """Run the command line, and end with its exit code.

    Databases, backups and exports contain emails and the hashes of passwords, so the files
    that a command creates can be read only by the user who runs it.
    """
    collect_less_often()
    os.umask(OWNER_ONLY_UMASK)
    bypass_proxies_on_this_machine()
    # Only servers have a log. Without this handler, Python would print the events of a command.
    logging.getLogger(LOGGER_NAME).addHandler(logging.NullHandler())
    if isinstance(sys.stdout, io.TextIOWrapper):  # the terminal may not be able to show it all
        sys.stdout.reconfigure(errors="backslashreplace")
    else:  # standard output was closed by whoever started the command
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - for as long as the command runs
    raise SystemExit(run_commands(commands))
