"""The newest checkpoint that was published, kept in a file outside the database.

A database that was restored from a backup lacks the checkpoints that were published after the
backup was written. Readers have seen them. So a server does not continue a log that contradicts
them until the operator has declared the loss publicly with `ousel log key new --restored`.
"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from ousel.database.port import Database, Transaction
from ousel.kernel.files import read_if_there, write_durably
from ousel.kernel.logs import EventLogger
from ousel.ledger.verify import VerificationFailed
from ousel.sealed_log import store
from ousel.sealed_log.checkpoints import Checkpoint, unverified_checkpoint
from ousel.sealed_log.keys import AnotherKeySigned, KeyHolder, LogKey, LogKeyUnusable
from ousel.sealed_log.notes import NoteRefused
from ousel.sealed_log.verification import LogDamaged, check_extends

RECORD_SECONDS: Final = 1.0

_log = EventLogger()


class LogShortened(LogKeyUnusable):
    """The log of the database contradicts a checkpoint that was published."""


class PublishedCheckpoint(msgspec.Struct, frozen=True):
    """A checkpoint that was published."""

    path: Path
    note: str  # with its signature
    checkpoint: Checkpoint

    def check_signer(self, key: LogKey | None) -> None:
        """Refuse the checkpoint if neither this key nor a former one has signed it."""
        with suppress(AnotherKeySigned):
            if key is not None:
                key.check_signer(self.note)
                return
        raise LogKeyUnusable(
            f"the checkpoint in {self.path} is not signed with the key of this log: restore the"
            " file of the key that signed it, or remove the checkpoint if it belongs to another log"
        )


def read_published(path: Path) -> PublishedCheckpoint | None:
    """Return the checkpoint in this file, or None if there is no such file."""
    try:
        content = read_if_there(path)
        if content is None:
            return None
        return _published(path, content.decode())
    except (NoteRefused, ValueError):
        raise LogKeyUnusable(
            f"{path} does not hold a checkpoint: put back a copy of the file, or remove it if the"
            " database is not older than what was published"
        ) from None
    except OSError as error:
        raise LogKeyUnusable(f"{path} cannot be read: {error.strerror}") from None


def _published(path: Path, note: str) -> PublishedCheckpoint:
    return PublishedCheckpoint(path, note, unverified_checkpoint(note))


class CheckpointRecorder:
    """Records what is published, and refuses a database that contradicts it."""

    def __init__(self, database: Database, holder: KeyHolder) -> None:
        """Keep the checkpoints of this database's log, which this holder's key signs."""
        self._database = database
        self._holder = holder
        self._path = holder.checkpoint_path
        self._recorded: PublishedCheckpoint | None = None
        self._is_writable = True

    async def check(self) -> None:
        """Raise LogShortened if the log contradicts what was published.

        If the log cannot be read, raise LogKeyUnusable.

        A contradiction that the operator has declared is accepted.
        """
        published = None if self._path is None else read_published(self._path)
        if published is None:
            return
        if self._holder.path is not None:
            published.check_signer(self._holder.key)
        if self._holder.key is not None and self._holder.key.declares_lost(published.note):
            return
        checkpoint = published.checkpoint
        try:
            await self._database.read(lambda transaction: check_extends(transaction, checkpoint))
        except LogDamaged as error:
            raise LogKeyUnusable(
                f"{error}, so the database is damaged: restore it from a backup"
            ) from None
        except VerificationFailed as error:
            raise LogShortened(
                f"{error}; the checkpoint in {self._path} was published, so this is an older copy"
                " of the database, or another database. To continue with it all the same, run"
                " 'ousel log key new --restored', which declares the loss publicly; if you did so"
                " on another host, copy its key to this host. If you have created a new database"
                f" on purpose, remove {self._path} and the key's file"
            ) from None
        self._recorded = published

    async def record(self) -> None:
        """Write the newest checkpoint to the file, if the log has grown.

        If the log no longer extends the recorded checkpoint, because the database was replaced
        while this server runs, keep the record, and do not let this process continue the log.
        """
        if self._path is None:
            return
        try:
            head = await self._database.read(self._extended_head)
        except VerificationFailed as error:
            if self._holder.may_continue_log:
                _log.error("sealing has stopped", reason=f"{error}; see {self._path}")
            self._holder.may_continue_log = False
            return
        if not self._holder.may_continue_log:
            _log.warning("sealing has resumed", reason="the log extends its checkpoint again")
        self._holder.may_continue_log = True
        if head is not None and head.checkpoint is not None:
            await self._write(self._path, head.checkpoint)

    async def _extended_head(self, transaction: Transaction) -> store.Head | None:
        """Return the state of the log if it extends the recorded one, or None if it is the same."""
        head = await store.read_head(transaction)
        if self._recorded is not None and head.checkpoint == self._recorded.note:
            return None
        self._take_over_record()
        if self._recorded is not None:  # the log may have grown meanwhile
            head, _ = await check_extends(transaction, self._recorded.checkpoint)
        self._holder.size_seen = max(self._holder.size_seen, head.size)
        return head

    def _take_over_record(self) -> None:
        """Take over the checkpoint that another process of this host has recorded, if it is larger.

        If the database then went back to a size between the two, only the larger one shows it.
        """
        assert self._path is not None
        with suppress(LogKeyUnusable):  # a file that cannot be read is overwritten
            other, key = read_published(self._path), self._holder.key
            if other is None or (key is not None and key.declares_lost(other.note)):
                return
            if self._recorded is None or other.checkpoint.size > self._recorded.checkpoint.size:
                self._recorded = other

    async def _write(self, path: Path, note: str) -> None:
        try:
            await asyncio.to_thread(write_durably, path, note.encode())
        except OSError as error:
            if self._is_writable:
                _log.warning(
                    "the published checkpoint cannot be recorded, so a database that is restored"
                    " from an older backup will not be noticed",
                    file=str(path),
                    reason=error.strerror,
                )
            self._is_writable = False
        else:
            self._recorded = _published(path, note)
            self._is_writable = True
