"""`ousel migrate`."""

import asyncio
from typing import Annotated, Any

import typer

from ousel.cli.console import DatabaseOption, JsonOption, show
from ousel.cli.databases import check_clock, settings
from ousel.database import schema
from ousel.database.addresses import database_may_exist, open_database, sqlite_path
from ousel.kernel.files import give_to_owner_of_folder


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


async def _migrate(url: str, *, distribute: bool) -> list[str]:
    """Migrate a database; refuse one that belongs to another program (see `schema_version`).

    If the tables are distributed, distribute new ones as well. Return the names of those that were
    distributed now.
    """
    is_new = not database_may_exist(url)
    async with open_database(url) as database:
        await check_clock(database, url)
        await schema.schema_version(database, url)
    if is_new:  # while nothing has it open: SQLite gives its log the owner of the file
        give_to_owner_of_folder(sqlite_path(url).resolve())
    await schema.migrate(url)
    return await schema.distribute(url, only_if_distributed=not distribute)
