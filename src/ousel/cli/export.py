"""`ousel export`, and the proof of what it wrote."""

import asyncio
import sys
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from ousel.cli.console import (
    DatabaseOption,
    JsonOption,
    clean_up_on_signal,
    discard_output,
    fail,
    run,
    show,
)
from ousel.database.backup import write_atomically
from ousel.database.port import Database, Transaction
from ousel.ledger.export import ExportedLedger, ExportTotals
from ousel.ledger.export import export_ledger as write_books
from ousel.ledger.verify import DatabaseLedger, VerifiedTotals, verify_ledger

STANDARD_OUTPUT: Final = "-"


class Form(StrEnum):
    """How the journal is written down."""

    JSONL = "jsonl"
    CSV = "csv"


def export(
    file: Annotated[str, typer.Argument(help="A file that does not exist yet, or - to print.")],
    form: Annotated[
        Form, typer.Option("--format", help="JSON Lines, or CSV that reads into Parquet.")
    ] = Form.JSONL,
    database: DatabaseOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Write the whole journal, as it is at one moment, with its hashes."""
    if file == STANDARD_OUTPUT:
        run(database, lambda opened: _printed(opened, form))
        return
    path = Path(file)
    with clean_up_on_signal(), write_atomically(path, "an export") as unfinished:
        exported = run(database, lambda opened: _written(opened, unfinished, form))
    show(
        {
            "file": file,
            "bytes": path.stat().st_size,
            "entries": exported.entries,
            "accounts": exported.accounts,
        },
        as_json=as_json,
    )


def verify_file(path: Path) -> VerifiedTotals:
    """Return the figures of an export whose books balance, or raise the first thing wrong."""
    try:
        return asyncio.run(verify_ledger(ExportedLedger(path)))
    except OSError as error:
        fail(f"{path} cannot be read: {error.strerror}")


class _NotWritten(Exception):
    """The export cannot be written: an error of the file, not of the database's connection."""


def _checked(write: Callable[[bytes], object], octets: bytes) -> None:
    try:
        write(octets)
    except OSError as error:
        raise _NotWritten(error.strerror) from error


async def _written(database: Database, path: Path, form: Form) -> ExportTotals:
    try:
        with path.open("wb") as file:

            async def work(transaction: Transaction) -> ExportTotals:
                file.seek(0)  # anew, should the snapshot be taken again
                file.truncate()
                books = DatabaseLedger(transaction)
                return await write_books(books, partial(_checked, file.write), form.value)

            return await database.snapshot(work)
    except (OSError, _NotWritten) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        fail(f"the export cannot be written: {reason}")


async def _printed(database: Database, form: Form) -> ExportTotals:
    begun = False

    async def work(transaction: Transaction) -> ExportTotals:
        nonlocal begun
        if begun:
            fail("the connection to the database broke: what was printed is not whole")
        begun = True
        write = partial(_checked, sys.stdout.buffer.write)
        return await write_books(DatabaseLedger(transaction), write, form.value)

    try:
        exported = await database.snapshot(work)
        sys.stdout.buffer.flush()
    except (OSError, _NotWritten):
        discard_output()
        fail("the export was not read to its end")
    return exported
