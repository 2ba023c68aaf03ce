"""`ousel backup` and `ousel restore`."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from ousel.cli.console import (
    DatabaseOption,
    JsonOption,
    check_empty,
    clean_up_on_signal,
    open_database,
    require_database,
    run_on_snapshot,
    settings,
    show,
)
from ousel.cli.verification import verify_everything
from ousel.database import backup as database_backup
from ousel.database import schema


def backup(
    file: Annotated[Path, typer.Argument(help="A file that does not exist yet.")],
    database: DatabaseOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Write a consistent snapshot of the database to a file; servers may keep running."""
    with clean_up_on_signal():
        database_backup.back_up(require_database(database), file)
    show({"file": str(file), "bytes": file.stat().st_size}, as_json=as_json)


def restore(
    file: Annotated[Path, typer.Argument(help="A file that 'ousel backup' wrote.")],
    database: DatabaseOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Fill an empty database from a backup, migrate it, and verify the ledger."""
    url = settings(database).database_url
    reason = "the database is not empty: a backup is restored into an empty one"
    asyncio.run(check_empty(url, message=reason))
    database_backup.restore(url, file)
    asyncio.run(_migrate(url))
    totals, _ = run_on_snapshot(database, verify_everything)
    show(
        {
            "result": "restored, and the books balance",
            "entries": totals.entries,
            "accounts": totals.accounts,
        },
        as_json=as_json,
    )


async def _migrate(url: str) -> None:
    """Migrate a backup that an older Ousel wrote; nobody else uses this database yet."""
    async with open_database(url) as database:
        version = await schema.schema_version(database, url)
    if not schema.is_supported(version):
        await schema.migrate(url)
