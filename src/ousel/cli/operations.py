"""`ousel serve`, `migrate` and `verify`."""

import asyncio
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ousel.cli.console import DatabaseOption, JsonOption, show
from ousel.cli.databases import check_clock, open_database, run_on_snapshot, settings
from ousel.cli.export import read_account_ends, verify_file
from ousel.cli.server import (
    address_at,
    bind_socket,
    claim_database_mode,
    prepare_database,
    serve_until_stopped,
)
from ousel.cli.verification import totals_record, verify_everything
from ousel.database import schema
from ousel.database.port import Transaction
from ousel.kernel.settings import PORT_DEFAULT, PORT_MAX
from ousel.ledger import journal
from ousel.ledger.extension import AccountEnds
from ousel.ledger.verify import VerifiedTotals
from ousel.sealed_log.keys import LogKey, known_key
from ousel.sealed_log.verification import parse_signed_checkpoint, verify_since

WORKERS_MAX: Final = 64


def serve(  # noqa: PLR0913 - one for each option
    *,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="The port to listen on.", min=1, max=PORT_MAX)
    ] = PORT_DEFAULT,
    workers: Annotated[
        int,
        typer.Option(
            help="The number of worker processes; more than one needs PostgreSQL.",
            min=1,
            max=WORKERS_MAX,
        ),
    ] = 1,
    sandbox: Annotated[
        bool,
        typer.Option("--sandbox", help="Run a sandbox, with test keys and endpoints for tests."),
    ] = False,
    admin_port: Annotated[
        int | None,
        typer.Option(
            help="The port for metrics and health checks; default: OUSEL_ADMIN_PORT.",
            min=1,
            max=PORT_MAX,
        ),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run the service."""
    changes: dict[str, Any] = {"sandbox": True} if sandbox else {}
    if admin_port is not None:
        changes["admin_port"] = admin_port
    server_settings = settings(database, port, **changes)
    asyncio.run(prepare_database(server_settings, port, workers))
    with bind_socket(host, port) as listener:
        asyncio.run(claim_database_mode(server_settings))
        if as_json or sys.stdout.isatty():  # otherwise the record would end up in the log
            mode = "sandbox" if server_settings.sandbox else "live"
            addresses = {
                "base_url": server_settings.base_url,
                "portal_url": server_settings.portal_url,
            }
            record = {"mode": mode, "listening": address_at(host, port), **addresses}
            show(record | {"workers": workers}, as_json=as_json)
        serve_until_stopped(server_settings, listener, workers)


def migrate(
    database: DatabaseOption = None,
    *,
    distribute: Annotated[
        bool,
        typer.Option("--distribute", help="Also distribute the tables over a Citus cluster."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Migrate the database to the current schema."""
    record: dict[str, Any] = {"schema": schema.SCHEMA_VERSION}
    tables = asyncio.run(_migrate(settings(database).database_url, distribute=distribute))
    if distribute or tables:
        record["tables_distributed"] = len(tables)
    show(record, as_json=as_json)


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
    """Replay the whole ledger and verify every balance, hash, paid charge and leaf of the log."""
    started = time.perf_counter()
    record: dict[str, Any] = {"result": "the books balance"}
    older_ends = read_account_ends(older)
    if since is not None:
        record = {"result": "the log extends the checkpoint"} | _verify_since(database, since)
    elif exported is not None:
        record |= totals_record(verify_file(exported, older_ends))
    else:
        log_key = known_key(settings(database))
        totals, counts = run_on_snapshot(
            database,
            lambda transaction: _verify_with_progress_bar(transaction, older_ends, log_key),
        )
        record |= totals_record(totals) | counts
    record["seconds"] = round(time.perf_counter() - started, 3)
    show(record, as_json=as_json)


def _verify_since(database: str | None, path: Path) -> dict[str, int]:
    """Verify what was added to the log after this checkpoint; return how many leaves that is."""
    key = known_key(settings(database))
    since = parse_signed_checkpoint(path.read_text("utf-8"), key)
    added = run_on_snapshot(database, lambda transaction: verify_since(transaction, since, key))
    return {"leaves_before": since.size, "leaves_added": added}


async def _verify_with_progress_bar(
    transaction: Transaction, older: AccountEnds, log_key: LogKey | None
) -> tuple[VerifiedTotals, dict[str, int]]:
    total = await journal.count_entries(transaction)
    with _progress_bar() as progress:
        bar = progress.add_task("entries", total=total)
        return await verify_everything(
            transaction, lambda done: progress.update(bar, completed=done), older, log_key
        )


async def _migrate(url: str, *, distribute: bool) -> list[str]:
    """Migrate a database; refuse one that is neither empty nor Ousel's.

    Where the tables are distributed, new ones are distributed as well. Return their names.
    """
    async with open_database(url) as database:
        await check_clock(database, url)
        await schema.schema_version(database, url)
    await schema.migrate(url)
    return await schema.distribute(url, only_if_distributed=not distribute)


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
