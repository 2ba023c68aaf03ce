"""Groups of commands whose help is plain text, so that it is printed without loading Rich."""

from typing import Any, Final

import typer
from typer.core import TyperGroup
from typing_extensions import override

_LINE_LENGTH_MAX: Final = 1_000
_USAGE_ERROR: Final = 2


class CommandGroup(TyperGroup):
    """A group of commands that shows its help if no command is given."""

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args:
            typer.echo(ctx.get_help())
            raise typer.Exit(_USAGE_ERROR)
        return super().parse_args(ctx, args)

    @override
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rows = [
            (name, command.get_short_help_str(_LINE_LENGTH_MAX))
            for name, command in self.commands.items()
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def command_group(line: str) -> typer.Typer:
    """Return a group of commands with this line of help."""
    return typer.Typer(cls=CommandGroup, help=line, rich_markup_mode=None)
