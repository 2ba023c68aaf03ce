"""Receipts: what the holder of a movement keeps, to check it years later and without Ousel.

A receipt is a JSON object on one line, without spaces:

    {"object":"receipt","transfer":{…},"entry":{"sequence":…,"previous_hash":…,"salt":…},
     "leaf":"<base64>","index":…,"proof":["<base64>",…],"checkpoint":"<signed note>",
     "signature":"<base64>"}

- `transfer` is the transfer record as the holder sees it.
- `entry` is what the holder needs to recompute the hash of their own entry: see `entry_part`. A
  receipt to show to others has `"entry":null`, and its transfer has no `balance_after`,
  `idempotency_key` or `sequence`: see `shareable_transfer`.
- `leaf` is the leaf (see `leaves`); `index`, `proof` and `checkpoint` show that the log has it.
- `signature` is the log key's Ed25519 signature of `ousel-receipt/v1`, a newline, and the bytes
  of the receipt without `,"signature":"…"`. So every byte counts, even in what the leaf does not
  bind: the names of the two accounts.

A receipt must be signed by a key that also signed its checkpoint.

`receipt_check` checks receipts. `proof_text` writes the same proof as a C2SP tlog-proof.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from ousel.ledger.rules import Entry
from ousel.sealed_log.leaves import LeafSecrets, Side, encode_canonically
from ousel.sealed_log.notes import SigningKey, to_base64

SIGNED_PREFIX: Final = b"ousel-receipt/v1\n"
PRIVATE_FIELDS: Final = ("balance_after", "idempotency_key", "sequence")


class ReceiptRefused(Exception):
    """The receipt proves nothing; the message says why in one sentence."""


class Inclusion(msgspec.Struct, frozen=True):
    """A leaf, and the proof that a log has it."""

    leaf: bytes
    index: int
    proof: Sequence[bytes]
    checkpoint: str  # a signed note


def entry_part(entry: Entry, previous_hash: str, secrets: LeafSecrets) -> dict[str, object]:
    """Return the `entry` of a receipt for the account that has this entry."""
    side: Side = "debit" if entry.amount < 0 else "credit"
    return {
        "sequence": entry.sequence,
        "previous_hash": previous_hash,
        "salt": secrets.salt(side).hex(),
    }


def shareable_transfer(transfer: Mapping[str, object]) -> dict[str, object]:
    """Return the transfer record without what concerns the holder alone."""
    return {name: value for name, value in transfer.items() if name not in PRIVATE_FIELDS}


def encode_receipt(
    transfer_json: bytes, entry: Mapping[str, object] | None, inclusion: Inclusion, key: SigningKey
) -> bytes:
    """Return a signed receipt, given the JSON of the transfer record without spaces."""
    rest = encode_canonically(
        {
            "entry": entry,
            "leaf": to_base64(inclusion.leaf),
            "index": inclusion.index,
            "proof": [to_base64(each) for each in inclusion.proof],
            "checkpoint": inclusion.checkpoint,
        }
    )
    body = b'{"object":"receipt","transfer":' + transfer_json + b"," + rest[1:]
    signature = to_base64(key.sign(SIGNED_PREFIX + body)).encode()
    return body[:-1] + b',"signature":"' + signature + b'"}'


def fingerprint(leaf: bytes) -> str:
    """Return 16 hexadecimal digits in groups, by which two people can compare a movement."""
    digits = hashlib.sha256(leaf).hexdigest()[:16].upper()
    return "-".join(digits[at : at + 4] for at in range(0, 16, 4))
