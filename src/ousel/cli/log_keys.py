"""`ousel log key`: the key of the sealed log."""

from typing import Annotated, Any

import typer

from ousel.cli.command_group import command_group
from ousel.cli.console import DatabaseOption, JsonOption, fail, show
from ousel.cli.databases import read_if_reachable, run_on_snapshot, run_with, settings
from ousel.ledger.verify import VerificationFailed
from ousel.sealed_log.checkpoints import Checkpoint
from ousel.sealed_log.keys import (
    KeyHolder,
    LogKey,
    forget_signer,
    new_key,
    read_key,
    write_key,
)
from ousel.sealed_log.published import read_published
from ousel.sealed_log.verification import LogDamaged, check_extends

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
    lost: Annotated[
        bool,
        typer.Option(
            "--lost",
            help="Continue with an unrelated key, because the one that signed the log is lost.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Create the key; if there is one, replace it by a new one, which the old key signs."""
    if lost and restored:
        fail("use --lost or --restored, not both")
    holder = _holder(database)
    assert holder.path is not None
    if lost:
        show(_record(holder, _replace_lost_key(database, holder)), as_json=as_json)
        return
    # Refuse if the file lacks the key that has signed the log. Servers accept a new key only if
    # the key that has signed the log has named the new one as its successor.
    read_if_reachable(database, holder.read_existing)
    old = read_key(holder.path, holder.origin)
    lost_checkpoint = _lost_checkpoint(database, holder, old) if restored else None
    new = new_key(holder.origin) if old is None else old.create_successor(lost_checkpoint)
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


def _lost_checkpoint(database: str | None, holder: KeyHolder, key: LogKey | None) -> Checkpoint:
    """Return the published checkpoint that the log does not extend, or end the command."""
    path = holder.checkpoint_path
    published = None if path is None else read_published(path)
    if published is None:
        fail(f"there is no published checkpoint at {path}: leave out --restored")
    published.check_signer(key)
    if key is not None and key.declares_lost(published.note):
        fail(f"the checkpoint in {path} was already declared lost: leave out --restored")
    if _is_extended(database, published.checkpoint):
        fail(f"the log extends the checkpoint in {path}, so nothing was lost: leave out --restored")
    return published.checkpoint


def _replace_lost_key(database: str | None, holder: KeyHolder) -> LogKey:
    """Let an unrelated key continue the log, or end the command if its key is not lost."""
    assert holder.path is not None
    record = holder.checkpoint_path
    published = None if record is None else read_published(record)
    if published is not None and not _is_extended(database, published.checkpoint):
        fail(
            f"the log does not extend the checkpoint in {record}, so this database lacks what was"
            " published: to continue with it all the same, remove that file first"
        )
    if not run_on_snapshot(database, holder.is_signer_missing):
        fail(f"the log is not signed with a key that is missing in {holder.path}: leave out --lost")
    if holder.path.exists():
        fail(f"{holder.path} holds another key: move that file away first")
    new = new_key(holder.origin)
    write_key(holder.path, new)
    run_with(database, lambda opened, _: opened, lambda opened: opened.write(forget_signer))
    if published is not None:
        published.path.unlink()
    return new


def _is_extended(database: str | None, checkpoint: Checkpoint) -> bool:
    try:
        run_on_snapshot(database, lambda each: check_extends(each, checkpoint))
    except LogDamaged:
        raise
    except VerificationFailed:
        return False
    return True


def _holder(database: str | None) -> KeyHolder:
    """Return where the key is kept, or end the command if no file is named."""
    holder = KeyHolder(settings(database))
    if holder.path is None:
        fail("set OUSEL_LOG_KEY_FILE to the file that holds the log key")
    return holder


def _record(holder: KeyHolder, key: LogKey) -> dict[str, Any]:
    return {"key": str(key.verifier), "file": str(holder.path)}
