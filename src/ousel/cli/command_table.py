"""The list of commands, each of which is imported only when it runs.

Importing all of them would take most of the time of a short command.
"""

from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typing_extensions import override

from ousel.cli.command_group import CommandGroup

# Name, module, what the module defines (a function, or a group of commands), and its line of help.
_COMMANDS: Final = (
    (
        "demo",
        "ousel.cli.demo",
        "demo",
        "Run a sandbox on a fresh database: people with money, a partner's key, and its shop.",
    ),
    ("serve", "ousel.cli.serve", "serve", "Run the service."),
    (
        "top",
        "ousel.cli.top",
        "top",
        "Show a running server's rates, durations, batches and ledger totals, live.",
    ),
    ("migrate", "ousel.cli.migrate", "migrate", "Migrate the database to the current schema."),
    (
        "verify",
        "ousel.cli.verify",
        "verify",
        "Recompute the ledger and verify every balance, hash, paid charge and leaf of the log.",
    ),
    (
        "export",
        "ousel.cli.export",
        "export",
        "Write a consistent snapshot of the whole journal, with its hashes.",
    ),
    (
        "backup",
        "ousel.cli.backups",
        "backup",
        "Write a consistent snapshot of the database to a file; servers may keep running.",
    ),
    (
        "restore",
        "ousel.cli.backups",
        "restore",
        "Fill an empty database from a backup, migrate it, end all sessions, verify the ledger.",
    ),
    (
        "bench",
        "ousel.cli.bench",
        "bench",
        "Measure this machine with a temporary server and a load over HTTP.",
    ),
    (
        "account",
        "ousel.cli.accounts",
        "accounts",
        "Open, fund, freeze, show, list and recover accounts; redeem money; confirm emails.",
    ),
    ("app", "ousel.cli.partners", "apps", "Create partner apps."),
    ("key", "ousel.cli.partners", "keys", "Issue, rotate, revoke and list partner keys."),
    (
        "log",
        "ousel.cli.log",
        "log",
        "Create the key that signs your sealed log; audit a log, or run a witness.",
    ),
    (
        "secret",
        "ousel.cli.secrets",
        "secrets",
        "Create and rotate the key that encrypts the secrets of second factors.",
    ),
    ("receipt", "ousel.cli.receipts", "receipts", "Check receipts."),
)


class CommandTable(CommandGroup):
    """A group of commands that lists all of them and imports the one that runs."""

    def __init__(self, **options: Any) -> None:
        """List each command with its line of help."""
        listed = [TyperCommand(name, help=line) for name, _, _, line in _COMMANDS]
        super().__init__(**options | {"commands": listed})

    @override
    def resolve_command(
        self, ctx: Any, args: list[str]
    ) -> tuple[str | None, TyperCommand | TyperGroup | None, list[str]]:
        """Return the name of the command to run, the command, and the arguments that follow."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else load_command(name), rest


def load_command(name: str) -> TyperCommand | TyperGroup:
    """Import the command, or the group of commands, with this name."""
    module, attribute = next((row[1], row[2]) for row in _COMMANDS if row[0] == name)
    defined = getattr(import_module(module), attribute)
    if isinstance(defined, typer.Typer):
        return typer.main.get_group(defined)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name)(defined)
    return typer.main.get_command(alone)  # type: ignore[return-value]


def load_commands() -> dict[str, TyperCommand | TyperGroup]:
    """Import all commands, by their names."""
    return {name: load_command(name) for name, *_ in _COMMANDS}
