"""`ousel verify`."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ousel.cli.console import DatabaseOption, JsonOption, fail, show
from ousel.cli.databases import run_on_snapshot, settings
from ousel.cli.export import read_last_entries, verify_file
from ousel.cli.verification import totals_record, verify_everything
from ousel.database.port import Transaction
from ousel.ledger import journal
from ousel.ledger.extension import LastEntries
from ousel.ledger.verify import VerifiedTotals
from ousel.sealed_log.keys import LogKey, known_key
from ousel.sealed_log.verification import parse_signed_checkpoint, verify_since


def verify(
    exported: Annotated[
        Path | None,
        typer.Option("--journal", metavar="FILE", help="Verify this export, without a database."),
    ] = None,
    older: Annotated[
        Path | None,
        typer.Option(
            "--extends",
            metavar="OLD",
            help="Also verify that nothing in this older export has been changed or removed.",
        ),
    ] = None,
    since: Annotated[
        Path | None,
        typer.Option(
            metavar="CHECKPOINT",
            help="Verify only what was added to the log after the checkpoint in this file.",
        ),
    ] = None,
    database: DatabaseOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Recompute the ledger and verify every balance, hash, paid charge and leaf of the log."""
    started = time.perf_counter()
    record: dict[str, Any] = {"result": "the books balance"}
    if since is not None and (exported is not None or older is not None):
        fail("--since verifies the log alone: run --journal or --extends without it")
    older_entries = read_last_entries(older)
    if since is not None:
        record = {"result": "the log extends the checkpoint"} | _verify_since(database, since)
    elif exported is not None:
        record |= totals_record(verify_file(exported, older_entries))
    else:
        log_key = known_key(settings(database))
        totals, counts = run_on_snapshot(
            database,
            lambda transaction: _verify_with_progress_bar(transaction, older_entries, log_key),
        )
        record |= totals_record(totals) | counts
    record["seconds"] = round(time.perf_counter() - started, 3)
    show(record, as_json=as_json)


def _verify_since(database: str | None, path: Path) -> dict[str, int]:
    """Verify what was added to the log after this checkpoint; return how many leaves that is."""
    key = known_key(settings(database))
    since = parse_signed_checkpoint(path.read_text("utf-8", "replace"), key)
    added = run_on_snapshot(database, lambda transaction: verify_since(transaction, since, key))
    return {"leaves_before": since.size, "leaves_added": added}


async def _verify_with_progress_bar(
    transaction: Transaction, older: LastEntries, log_key: LogKey | None
) -> tuple[VerifiedTotals, dict[str, int]]:
    with _progress_bar() as progress:
        total = None if progress.disable else await journal.count_entries(transaction)
        bar = progress.add_task("entries", total=total)
        return await verify_everything(
            transaction, lambda done: progress.update(bar, completed=done), older, log_key
        )


def _progress_bar() -> Progress:
    """Return a progress bar that is shown only on a terminal."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("verify"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
