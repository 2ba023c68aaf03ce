"""`ousel export`, and the verification of exported files."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from ousel.cli.console import (
    DatabaseOption,
    JsonOption,
    clean_up_on_signal,
    discard_output,
    fail,
    show,
)
from ousel.cli.databases import run_on_snapshot
from ousel.database.backup import write_atomically
from ousel.database.port import Transaction
from ousel.ledger.export import ExportedLedger, ExportTotals, export_ledger
from ousel.ledger.extension import ExtensionCheck, LastEntries, last_entries
from ousel.ledger.verify import DatabaseLedger, VerifiedTotals, verify_ledger

STANDARD_OUTPUT: Final = "-"

Result = TypeVar("Result")


class Format(StrEnum):
    """The file formats of an export."""

    JSONL = "jsonl"
    CSV = "csv"


def export(
    file: Annotated[str, typer.Argument(help="A file that does not exist yet, or - to print.")],
    file_format: Annotated[
        Format,
        typer.Option("--format", help="JSON Lines, or CSV that can be converted to Parquet."),
    ] = Format.JSONL,
    database: DatabaseOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Write a consistent snapshot of the whole journal, with its hashes."""
    if file == STANDARD_OUTPUT:
        _print(database, file_format)
        return
    path = Path(file)
    with clean_up_on_signal(), write_atomically(path, "an export") as unfinished:
        totals = _write(database, unfinished, file_format)
    show(
        {
            "file": file,
            "bytes": path.stat().st_size,
            "entries": totals.entries,
            "accounts": totals.accounts,
        },
        as_json=as_json,
    )


def verify_file(path: Path, older: LastEntries) -> VerifiedTotals:
    """Verify an exported ledger, and that it extends an older one; return its totals."""

    async def verify() -> VerifiedTotals:
        ledger = ExportedLedger(path)
        extension = ExtensionCheck(older)
        totals = await verify_ledger(ledger, observer=extension.add_entries)
        await extension.finish(ledger)
        return totals

    return _read_file(path, verify())


def read_last_entries(path: Path | None) -> LastEntries:
    """Return the last entry of each account in this export; nothing if there is no export."""
    return {} if path is None else _read_file(path, last_entries(ExportedLedger(path)))


def _read_file(path: Path, work: Coroutine[Any, Any, Result]) -> Result:
    try:
        return asyncio.run(work)
    except OSError as error:
        fail(f"{path} cannot be read: {error.strerror}")


class _WriteFailed(Exception):
    """The file cannot be written.

    This is not an OSError, which the database would take for a lost connection.
    """


def _write_or_raise(write: Callable[[bytes], object], octets: bytes) -> None:
    try:
        write(octets)
    except OSError as error:
        raise _WriteFailed(error.strerror) from error


def _write(database: str | None, path: Path, file_format: Format) -> ExportTotals:
    try:
        with path.open("wb") as file:

            async def work(transaction: Transaction) -> ExportTotals:
                file.seek(0)  # start over if the snapshot is taken again
                file.truncate()
                ledger = DatabaseLedger(transaction)
                return await export_ledger(
                    ledger, partial(_write_or_raise, file.write), file_format.value
                )

            return run_on_snapshot(database, work)
    except (OSError, _WriteFailed) as error:
        fail(f"the export cannot be written: {_reason(error)}")


def _print(database: str | None, file_format: Format) -> None:
    started = False

    async def work(transaction: Transaction) -> ExportTotals:
        nonlocal started
        if started:
            fail("the connection to the database broke: what was printed is incomplete")
        started = True
        write = partial(_write_or_raise, sys.stdout.buffer.write)
        return await export_ledger(DatabaseLedger(transaction), write, file_format.value)

    try:
        run_on_snapshot(database, work)
        sys.stdout.buffer.flush()
    except (OSError, _WriteFailed) as error:
        discard_output()
        if isinstance(error.__cause__ or error, BrokenPipeError):
            fail("the export was not read to its end")
        fail(f"the export cannot be printed: {_reason(error)}")


def _reason(error: OSError | _WriteFailed) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
