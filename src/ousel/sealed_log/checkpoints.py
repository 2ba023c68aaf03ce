"""Checkpoints as in C2SP tlog-checkpoint: the name, the size and the root of a log."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from ousel.sealed_log.merkle import HASH_BYTES
from ousel.sealed_log.notes import (
    NoteRefused,
    OpenedNote,
    VerifierKey,
    from_base64,
    open_note,
    split_note,
    to_base64,
)

_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_LINES_MIN: Final = 3


class Checkpoint(msgspec.Struct, frozen=True):
    """What a log says about itself when it has this many leaves."""

    origin: str
    size: int
    root: bytes

    @property
    def text(self) -> str:
        """The text that the log signs."""
        return f"{self.origin}\n{self.size}\n{to_base64(self.root)}\n"


def parse_checkpoint(text: str) -> Checkpoint:
    """Return the checkpoint of a note's text; lines after the third are ignored."""
    lines = text.split("\n")[:-1]
    if len(lines) < _LINES_MIN or not all(lines) or not _SIZE.fullmatch(lines[1]):
        raise NoteRefused("the checkpoint does not consist of a name, a size and a root")
    root = from_base64(lines[2])
    if len(root) != HASH_BYTES:
        raise NoteRefused("the root of the checkpoint is not a SHA-256 hash")
    return Checkpoint(lines[0], int(lines[1]), root)


def unverified_checkpoint(note: str) -> Checkpoint:
    """Return the checkpoint of a signed note; its signatures are not verified."""
    return parse_checkpoint(split_note(note)[0])


def open_checkpoint(
    note: str, keys: Sequence[VerifierKey], witness_keys: Sequence[VerifierKey] = ()
) -> tuple[Checkpoint, OpenedNote]:
    """Return the checkpoint of a note that the log signed, or refuse the note.

    The name of the log must be the name of one of its keys, and that key must have signed.
    """
    opened = open_note(note, [*keys, *witness_keys])
    checkpoint = parse_checkpoint(opened.text)
    if not any(opened.is_signed_by(key) for key in keys if key.name == checkpoint.origin):
        raise NoteRefused(f"no given key of {checkpoint.origin} has signed the checkpoint")
    return checkpoint, opened
