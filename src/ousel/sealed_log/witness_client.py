"""The client of a witness: offers it checkpoints, and returns its cosignatures."""

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Final

import msgspec

from ousel.kernel.threads import run_on_thread
from ousel.sealed_log.checkpoints import unverified_checkpoint
from ousel.sealed_log.merkle import leaf_count
from ousel.sealed_log.notes import (
    COSIGNATURE,
    NoteRefused,
    VerifierKey,
    open_note,
    parse_verifier_key,
    split_note,
)
from ousel.sealed_log.remote import is_http_address, request
from ousel.sealed_log.witness_rules import AddCheckpoint

ATTEMPTS_MAX: Final = 3

_SIZE: Final = re.compile(rb"(0|[1-9][0-9]{0,18})\n")

MakeProof = Callable[[int, int], Awaitable[list[bytes]]]


class WitnessRefused(Exception):
    """A witness does not cosign a checkpoint; the message says why in one sentence."""


class WitnessAddress(msgspec.Struct, frozen=True):
    """A witness: its key, and the address to which checkpoints are sent."""

    key: VerifierKey
    url: str


def parse_witnesses(text: str) -> list[WitnessAddress]:
    """Return the witnesses in a list such as `VKEY https://…, VKEY https://…`."""
    witnesses = []
    for part in filter(None, map(str.strip, text.split(","))):
        vkey, *urls = part.split()
        key = parse_verifier_key(vkey)
        if key.type != COSIGNATURE:
            raise NoteRefused(f"the key of {key.name} is not a witness's: it must be of type 4")
        if len(urls) != 1 or not is_http_address(urls[0]):
            raise NoteRefused(f"the witness {key.name} must have one http or https address")
        witnesses.append(WitnessAddress(key, urls[0].rstrip("/")))
    return witnesses


class WitnessClient:
    """Offers checkpoints to one witness."""

    def __init__(self, address: WitnessAddress) -> None:
        """Offer checkpoints to the witness at this address."""
        self.address = address
        self._size = 0  # of the last checkpoint that the witness is known to have cosigned

    async def cosign(self, note: str, make_proof: MakeProof) -> str:
        """Return the witness's cosignature of this checkpoint, as one line."""
        checkpoint = unverified_checkpoint(note)
        url = f"{self.address.url}/add-checkpoint"
        for _ in range(ATTEMPTS_MAX):
            if self._size > checkpoint.size:
                seen, self._size = self._size, 0
                raise WitnessRefused(
                    f"it has cosigned a log of {leaf_count(seen)}, and this is shorter"
                )
            proof = await make_proof(self._size, checkpoint.size)
            body = AddCheckpoint(self._size, proof, note).encode()
            answer = await run_on_thread("witness", partial(request, url, body))
            if answer.status == HTTPStatus.OK:
                line = self._cosignature(note, answer.content)
                self._size = checkpoint.size
                return line
            size = _SIZE.fullmatch(answer.content)
            if answer.status != HTTPStatus.CONFLICT or size is None:
                raise WitnessRefused(_describe(answer.status, answer.content))
            self._size = int(size[1])
        raise WitnessRefused(
            "each time, it gave a different size for the last checkpoint that it cosigned"
        )

    def _cosignature(self, note: str, lines: bytes) -> str:
        """Return the first of these lines that has a correct signature of the witness."""
        key = self.address.key
        for line in lines.decode("utf-8", "replace").splitlines(keepends=True):
            if line.startswith(f"— {key.name} "):
                try:
                    open_note(_without_signatures(note) + line, [key])
                except NoteRefused:
                    continue
                return line
        raise WitnessRefused(f"its answer has no signature of the key {key}")


def _without_signatures(note: str) -> str:
    return split_note(note)[0] + "\n"


def _describe(status: int, content: Sequence[int]) -> str:
    text = " ".join(bytes(content[:200]).decode("utf-8", "replace").split())
    return f"it answers with status {status}: {text}"
