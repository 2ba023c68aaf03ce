"""`ousel backup` and `ousel restore`."""

import asyncio
from pathlib import Path
from typing import Annotated, Final

import typer

from ousel.cli.console import DatabaseOption, JsonOption, clean_up_on_signal, fail, show
from ousel.cli.databases import (
    check_empty,
    require_database,
    run_on_snapshot,
    servers_clock,
    settings,
)
from ousel.cli.verification import verify_everything
from ousel.database import backup as database_backup
from ousel.database import schema
from ousel.database.addresses import open_database
from ousel.database.port import Transaction
from ousel.oauth.service import end_all_tokens
from ousel.partners.service import revoke_all_keys
from ousel.people.sign_in import end_all_sessions_and_reset_links

# What a restore makes valid again, as it was when the backup was written.
VALID_AGAIN_WITHOUT_KEYS: Final = "passwords, passkeys, second factors, recovery codes"
VALID_AGAIN: Final = f"{VALID_AGAIN_WITHOUT_KEYS}, partner keys, user tokens"


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
    revoke_keys: Annotated[
        bool,
        typer.Option(
            "--revoke-keys",
            help="Revoke all partner keys and user tokens, because those that were revoked after"
            " the backup are valid again.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Fill an empty database from a backup, migrate it, end all sessions, verify the ledger."""
    url = settings(database).database_url
    reason = "the database is not empty: a restore needs an empty one"
    asyncio.run(check_empty(url, message=reason))
    # A signal that ends this command must also end the copy, which would fill the database.
    with clean_up_on_signal():
        database_backup.restore(url, file)
    asyncio.run(_migrate(url))
    # This comes first, so that no session is valid again if the verification fails.
    ended = asyncio.run(_end_credentials(url, revoke_keys=revoke_keys))
    totals, _ = run_on_snapshot(database, verify_everything)
    show(
        {
            "result": "restored, and the books balance",
            "entries": totals.entries,
            "accounts": totals.accounts,
            **ended,
            "valid_again": VALID_AGAIN_WITHOUT_KEYS if revoke_keys else VALID_AGAIN,
        },
        as_json=as_json,
    )


async def _migrate(url: str) -> None:
    """Migrate a backup that an older version wrote; nobody else uses this database yet."""
    async with open_database(url) as database:
        version = await schema.schema_version(database, url)
    if version is None:  # on PostgreSQL, a backup names the schema that its tables belong to
        fail(
            "the backup's tables are not in the schema that this address uses: restore it into"
            " another empty database, whose search_path begins with the backup's schema"
        )
    if not schema.is_supported(version):
        await schema.migrate(url)


async def _end_credentials(url: str, *, revoke_keys: bool) -> dict[str, int]:
    """End all sessions and, if wanted, all keys and tokens; return how many there were."""

    async def work(transaction: Transaction) -> dict[str, int]:
        ended = {"sessions_ended": await end_all_sessions_and_reset_links(transaction)}
        if revoke_keys:
            ended["keys_revoked"] = await revoke_all_keys(transaction, clock)
            ended["user_tokens_ended"] = await end_all_tokens(transaction)
        return ended

    async with open_database(url) as database:
        clock = await servers_clock(database, url)
        return await database.write(work)
