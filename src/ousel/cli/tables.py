"""Records as tables for people."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

COLUMNS_MAX: Final = 1_000


def print_record(record: dict[str, Any]) -> None:
    """Print one record, with a line for each value."""
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in record.items():
        table.add_row(Text(name, style="bold"), _text(value))
    _print_whole(table)


def print_records(records: Sequence[dict[str, Any]]) -> None:
    """Print a list of records, with a line for each of them."""
    if not records:
        Console().print("none")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in records[0]:
        table.add_column(name)
    for record in records:
        table.add_row(*map(_text, record.values()))
    _print_whole(table)


def _print_whole(table: Table) -> None:
    """Print a table as wide as its values, so that no id or key is cut off or wrapped."""
    Console(width=COLUMNS_MAX).print(table)


def _text(value: Any) -> Text:
    if isinstance(value, msgspec.Raw):
        return Text(bytes(value).decode())
    return Text("" if value is None else str(value))
