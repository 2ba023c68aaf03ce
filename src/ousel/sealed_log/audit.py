"""The audit of somebody else's log, which must only ever grow."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from ousel.kernel.files import read_if_there, write_durably
from ousel.sealed_log.checkpoints import Checkpoint, open_checkpoint
from ousel.sealed_log.merkle import (
    EMPTY_ROOT,
    HashOfNode,
    Node,
    ProofRefused,
    check_consistency,
    consistency_nodes,
    consistency_proof,
    leaf_count,
    root_hash,
    root_nodes,
)
from ousel.sealed_log.notes import NoteRefused, Signature, VerifierKey

EVIDENCE_SUFFIX: Final = ".evidence"
EVIDENCE_BYTES_MAX: Final = 2**20  # then nothing is added, so that a log cannot fill the disk


class PublicLog(Protocol):
    """The public files of a log, wherever they are."""

    def checkpoint(self) -> str:
        """Return the newest checkpoint, unverified."""
        ...

    def hashes(self, nodes: Sequence[Node], size: int) -> HashOfNode:
        """Return the hashes of these nodes in a log of this size, unverified."""
        ...


class LogInconsistent(Exception):
    """The log contradicts what it has signed before; the message says how.

    If the evidence could not be saved, the message contains it as a JSON string, in one line.
    """


class AuditFailed(Exception):
    """The log was not audited, because its checkpoint or the state file is unusable."""


class AuditResult(msgspec.Struct, frozen=True):
    """What an audit read from a log that it found consistent."""

    checkpoint: Checkpoint
    previous: Checkpoint | None
    cosignatures: list[Signature]


class Auditor:
    """Compares a log with the last checkpoint that was seen of it."""

    def __init__(
        self,
        keys: Sequence[VerifierKey],
        state: Path,
        witness_keys: Sequence[VerifierKey] = (),
    ) -> None:
        """Trust these keys of the log and of witnesses; keep the last checkpoint in this file."""
        self._keys = keys
        self._witness_keys = witness_keys
        self._state = state

    @property
    def evidence(self) -> Path:
        """The file that is written if the log is inconsistent."""
        return self._state.with_name(f"{self._state.name}{EVIDENCE_SUFFIX}")

    def audit(self, log: PublicLog) -> AuditResult:
        """Check that the log extends what was seen before; otherwise write the evidence."""
        stored = read_if_there(self._state)
        previous_note = None if stored is None else stored.decode("utf-8", "replace")
        previous = None if previous_note is None else self._open(previous_note, "the state file")[0]
        note = log.checkpoint()
        checkpoint, cosignatures = self._open(note, "the checkpoint")
        if previous is not None and previous.origin != checkpoint.origin:
            raise AuditFailed(f"the state file is about {previous.origin}, not {checkpoint.origin}")
        try:
            self._check(log, previous, checkpoint)
        except ProofRefused as error:
            evidence = _evidence(str(error), previous_note or "nothing\n", note)
            raise LogInconsistent(f"{error}; {self._write_evidence(evidence)}") from None
        write_durably(self._state, note.encode())
        return AuditResult(checkpoint, previous, cosignatures)

    def _open(self, note: str, what: str) -> tuple[Checkpoint, list[Signature]]:
        try:
            checkpoint, opened = open_checkpoint(note, self._keys, self._witness_keys)
        except NoteRefused as error:
            raise AuditFailed(
                f"{what} cannot be verified: {error}; "
                "if the key of the log was replaced, give both: --key OLD --key NEW"
            ) from None
        return checkpoint, opened.signatures_of(self._witness_keys)

    def _check(self, log: PublicLog, previous: Checkpoint | None, checkpoint: Checkpoint) -> None:
        """Check that the published hashes have the signed root and extend the previous one."""
        old = previous or Checkpoint(checkpoint.origin, 0, EMPTY_ROOT)
        if checkpoint.size < old.size:
            raise ProofRefused(
                f"the log had {leaf_count(old.size)} before, and now it has {checkpoint.size}"
            )
        if checkpoint.size == old.size:  # two roots prove a fork, even if no hash can be read
            check_consistency(old.size, old.root, checkpoint.size, checkpoint.root, [])
        size = checkpoint.size
        nodes = [*root_nodes(size), *consistency_nodes(old.size, size)]
        hash_of = log.hashes(nodes, size)
        try:
            root = root_hash(size, hash_of)
            proof = consistency_proof(old.size, size, hash_of)
        except (KeyError, IndexError):
            raise ProofRefused("the log does not publish all hashes of its tree") from None
        if root != checkpoint.root:
            raise ProofRefused("the published hashes have another root than the signed one")
        check_consistency(old.size, old.root, size, checkpoint.root, proof)

    def _write_evidence(self, evidence: str) -> str:
        """Add to the evidence that was found before; return a phrase that says where it is."""
        try:
            earlier = read_if_there(self.evidence) or b""
            is_new = evidence.encode() not in earlier
            if is_new and len(earlier) >= EVIDENCE_BYTES_MAX:
                return _unsaved(f"{self.evidence} is full", evidence)
            if is_new:
                write_durably(self.evidence, earlier + evidence.encode())
        except OSError as error:
            return _unsaved(f"{self.evidence} cannot be written: {error.strerror}", evidence)
        return f"the evidence is in {self.evidence}"


def _unsaved(reason: str, evidence: str) -> str:
    return f"{reason}; it would contain {json.dumps(evidence)}"


def _evidence(reason: str, before: str, now: str) -> str:
    """Return what proves the inconsistency: both checkpoints, each signed by the log."""
    return (
        f"The log contradicts itself: {reason}.\n\nSeen before:\n\n{before}\nSeen now:\n\n{now}\n"
    )
