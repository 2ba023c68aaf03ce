"""`ousel log key`: the key of the sealed log."""

from typing import Annotated, Any

import typer

from ousel.cli.command_group import command_group
from ousel.cli.console import DatabaseOption, JsonOption, fail, show
from ousel.cli.databases import read_if_reachable, settings
from ousel.sealed_log.keys import KeyHolder, LogKey, new_key, read_key, write_key
from ousel.sealed_log.published import checkpoint_path, read_published

keys = command_group("Create, replace and show the key of your own log.")


@keys.command("new")
def create_key(
    database: DatabaseOption = None,
    *,
    restored: Annotated[
        bool,
        typer.Option(
            "--restored",
            help="Declare that the database is older than the last checkpoint that was published.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Create the key; if there is one, replace it by a new one, which the old key signs."""
    holder = _holder(database)
    assert holder.path is not None
    # Servers would refuse a new key that the present one has not named.
    read_if_reachable(database, holder.read_existing)
    old = read_key(holder.path, holder.origin)
    published = checkpoint_path(holder.path)
    lost = read_published(published) if restored else None
    if restored and (old is None or lost is None):
        fail(f"there is no published checkpoint at {published}: leave out --restored")
    new = new_key(holder.origin) if old is None else old.create_successor(lost)
    write_key(holder.path, new, replaces=old is not None)
    if lost is not None:
        published.unlink()
    replaced = {} if old is None else {"replaces": str(old.verifier)}
    show(_record(holder, new) | replaced, as_json=as_json)


@keys.command("show")
def show_key(database: DatabaseOption = None, *, as_json: JsonOption = False) -> None:
    """Print the verifier key, by which everyone can check receipts."""
    holder = _holder(database)
    assert holder.path is not None
    key = read_key(holder.path, holder.origin)
    if key is None:
        fail(f"there is no log key at {holder.path}: run 'ousel log key new' to create it")
    show(_record(holder, key), as_json=as_json)


def _holder(database: str | None) -> KeyHolder:
    """Return where the key is kept, or end the command if no setting names a file."""
    holder = KeyHolder(settings(database))
    if holder.path is None:
        fail("set OUSEL_LOG_KEY_FILE to the file that holds the log key")
    return holder


def _record(holder: KeyHolder, key: LogKey) -> dict[str, Any]:
    return {"key": str(key.verifier), "file": str(holder.path)}
