"""Cosignatures of witnesses, and the checkpoints that have them."""

from collections.abc import Sequence

import msgspec


class Cosignature(msgspec.Struct, frozen=True):
    """The newest cosignature of a witness: a line to be added to the checkpoint."""

    witness: str  # its verifier key
    size: int
    checkpoint: str
    line: str


class CosignedCheckpoint(msgspec.Struct, frozen=True):
    """A checkpoint with all the cosignatures that it has."""

    size: int
    note: str


def add_cosignatures(checkpoint: str, cosignatures: Sequence[Cosignature]) -> str:
    """Return the checkpoint, followed by the cosignatures that were made for it."""
    return checkpoint + "".join(each.line for each in cosignatures if each.checkpoint == checkpoint)


def newest_cosigned(cosignatures: Sequence[Cosignature]) -> CosignedCheckpoint | None:
    """Return the newest checkpoint that has a cosignature."""
    if not cosignatures:
        return None
    newest = max(cosignatures, key=lambda each: each.size)
    return CosignedCheckpoint(newest.size, add_cosignatures(newest.checkpoint, cosignatures))
