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
    require_database,
    run,
    settings,
    show,
)
from ousel.cli.verification import verify_everything
from ousel.database import backup as database_backup
from ousel.database import schema
from ousel.database.addresses import database_at


def backup(
    file: Annotated[Path, typer.Argument(help="A file that does not exist yet.")],
    database: DatabaseOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Write the database, as it is at one moment, to a file; servers may go on."""
    with clean_up_on_signal():
        database_backup.back_up(require_database(database), file)
    show({"file": str(file), "bytes": file.stat().st_size}, as_json=as_json)


def restore(
    file: Annotated[Path, typer.Argument(help="A file that 'ousel backup' wrote.")],
    database: DatabaseOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Fill an empty database from a backup, bring it to today's schema, and prove its books."""
    url = settings(database).database_url
    reason = "the database is not empty: a backup is restored into an empty one"
    asyncio.run(check_empty(url, otherwise=reason))
    database_backup.restore(url, file)
    asyncio.run(_made_current(url))
    figures, _ = run(database, lambda opened: opened.snapshot(verify_everything))
    show(
        {
            "result": "restored, and the books balance",
            "entries": figures.entries,
            "accounts": figures.accounts,
        },
        as_json=as_json,
    )


async def _made_current(url: str) -> None:
    """Migrate what an older Ousel backed up; nobody else uses this database yet."""
    database = database_at(url)
    await database.open()
    try:
        version = await schema.schema_version(database, url)
    finally:
        await database.close()
    if not schema.is_supported(version):
        await schema.migrate(url)
