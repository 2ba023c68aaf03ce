"""`ousel export`, and the proof of what it wrote."""

import asyncio
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from ousel.cli.console import DatabaseOption, JsonOption, fail, run, show
from ousel.database.port import Database, Transaction
from ousel.ledger.export import BooksInFile, Exported
from ousel.ledger.export import export as write_books
from ousel.ledger.verify import BooksInDatabase, Figures, prove

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
    if path.exists():
        fail(f"{path} exists already: an export overwrites nothing")
    exported = run(database, lambda opened: _written(opened, path, form))
    show(
        {
            "file": file,
            "bytes": path.stat().st_size,
            "entries": exported.entries,
            "accounts": exported.accounts,
        },
        as_json=as_json,
    )


def proven_file(path: Path) -> Figures:
    """Return the figures of an export whose books balance, or raise the first thing wrong."""
    try:
        return asyncio.run(prove(BooksInFile(path)))
    except OSError as error:
        fail(f"{path} cannot be read: {error.strerror}")


async def _written(database: Database, path: Path, form: Form) -> Exported:
    unfinished = path.with_name(f"{path.name}.unfinished")

    async def work(transaction: Transaction) -> Exported:
        with unfinished.open("wb") as file:  # anew, should the snapshot be taken again
            return await write_books(BooksInDatabase(transaction), file.write, form.value)

    try:
        exported = await database.snapshot(work)
        unfinished.rename(path)
    except OSError as error:
        fail(f"the export cannot be written: {error.strerror}")
    finally:
        unfinished.unlink(missing_ok=True)
    return exported


async def _printed(database: Database, form: Form) -> Exported:
    written = 0

    def write(octets: bytes) -> None:
        nonlocal written
        written += sys.stdout.buffer.write(octets)

    async def work(transaction: Transaction) -> Exported:
        if written:
            fail("the connection to the database broke: what was printed is not whole")
        return await write_books(BooksInDatabase(transaction), write, form.value)

    try:
        exported = await database.snapshot(work)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # Whoever read it has had enough: what is still to be flushed goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        fail("the export was not read to its end")
    return exported
