"""`ousel log key`: the key of the sealed log."""

from typing import Any

import typer

from ousel.cli.console import DatabaseOption, JsonOption, fail, settings, show
from ousel.sealed_log.keys import KeyHolder, LogKey, new_key, read_key, write_key

keys = typer.Typer(no_args_is_help=True, help="Create, replace and show the key of your own log.")


@keys.command("new")
def create_key(database: DatabaseOption = None, *, as_json: JsonOption = False) -> None:
    """Create the key; if there is one, replace it: the old key signs the new one."""
    holder = _holder(database)
    assert holder.path is not None
    old = read_key(holder.path, holder.origin)
    new = new_key(holder.origin) if old is None else old.succeeding()
    write_key(holder.path, new, replaces=old is not None)
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
    """Return where the key is kept, or end the command if nothing says where."""
    holder = KeyHolder(settings(database))
    if holder.path is None:
        fail("set OUSEL_LOG_KEY_FILE to the file that holds the log key")
    return holder


def _record(holder: KeyHolder, key: LogKey) -> dict[str, Any]:
    return {"key": str(key.verifier), "file": str(holder.path)}
