"""The protocol of C2SP tlog-witness, without I/O: requests, and what a witness answers to them."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from ousel.sealed_log.checkpoints import Checkpoint, open_checkpoint, unverified_checkpoint
from ousel.sealed_log.merkle import (
    EMPTY_ROOT,
    HASH_BYTES,
    PROOF_HASHES_MAX,
    ProofRefused,
    check_consistency,
)
from ousel.sealed_log.notes import (
    NoteRefused,
    SigningKey,
    VerifierKey,
    from_base64,
    known_lines,
    to_base64,
)

REQUEST_BYTES_MAX: Final = 64 * 1024
SIZE_CONTENT_TYPE: Final = "text/x.tlog.size"

_OLD_SIZE: Final = re.compile(r"old (0|[1-9][0-9]{0,18})")


class RequestMalformed(Exception):
    """The request does not follow the protocol; the message says why in one sentence."""


class AddCheckpoint(msgspec.Struct, frozen=True):
    """A request to cosign a checkpoint, with the proof that it extends an older one."""

    old_size: int
    proof: Sequence[bytes]
    checkpoint: str  # a signed note

    def encode(self) -> bytes:
        """Return the body of the request."""
        hashes = "".join(f"{to_base64(each)}\n" for each in self.proof)
        return f"old {self.old_size}\n{hashes}\n{self.checkpoint}".encode()


class WitnessAnswer(msgspec.Struct, frozen=True):
    """The answer of a witness.

    If `cosigned` is set, the witness must store it before it sends the answer.
    """

    status: int
    body: str
    content_type: str = "text/plain; charset=utf-8"
    cosigned: str | None = None  # the checkpoint with the signatures that were found correct


def parse_request(body: bytes) -> AddCheckpoint:
    """Return the request with this body, or refuse it."""
    try:
        head, separator, checkpoint = body.decode().partition("\n\n")
        first, *lines = head.split("\n")
        match = _OLD_SIZE.fullmatch(first)
        proof = [from_base64(line) for line in lines]
    except (UnicodeDecodeError, NoteRefused):
        raise RequestMalformed("the request is not text, or a hash is not Base64") from None
    is_proof = len(proof) <= PROOF_HASHES_MAX and all(len(each) == HASH_BYTES for each in proof)
    if match is None or not separator or not is_proof:
        raise RequestMalformed("the request is not an old size, hashes and a checkpoint")
    return AddCheckpoint(int(match[1]), proof, checkpoint)


def origin_of(request: AddCheckpoint) -> str:
    """Return the name of the log whose checkpoint this is, before anything is verified."""
    try:
        return unverified_checkpoint(request.checkpoint).origin
    except NoteRefused as error:
        raise RequestMalformed(str(error)) from None


def answer_request(
    request: AddCheckpoint,
    log_keys: Sequence[VerifierKey],
    last: Checkpoint | None,
    key: SigningKey,
    now_seconds: int,
) -> WitnessAnswer:
    """Return a witness's answer; `last` is the last checkpoint of this log that it cosigned."""
    if not log_keys:
        return WitnessAnswer(404, "this witness does not know the log\n")
    try:
        checkpoint, opened = open_checkpoint(request.checkpoint, log_keys)
    except NoteRefused as error:
        return WitnessAnswer(403, f"{error}\n")
    if request.old_size > checkpoint.size:
        return WitnessAnswer(400, "the old size is larger than the checkpoint's\n")
    known = last or Checkpoint(checkpoint.origin, 0, EMPTY_ROOT)
    if request.old_size != known.size:
        return WitnessAnswer(409, f"{known.size}\n", SIZE_CONTENT_TYPE)
    try:
        check_consistency(
            known.size, known.root, checkpoint.size, checkpoint.root, list(request.proof)
        )
    except ProofRefused as error:
        has_another_root = checkpoint.size == known.size and checkpoint.root != known.root
        return WitnessAnswer(409 if has_another_root else 422, f"{error}\n")
    line = key.signature_line(opened.text, now_seconds)
    # Strangers may have added lines that nobody can check, so they are not kept.
    cosigned = f"{opened.text}\n{known_lines(request.checkpoint, log_keys)}{line}"
    return WitnessAnswer(200, line, cosigned=cosigned)
