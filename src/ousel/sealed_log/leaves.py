"""Leaves of the sealed log: the bytes that stand for one movement, and what they bind.

A leaf is a JSON object on one line, in UTF-8, without spaces, with these keys in this order:

    {"format":"ousel-leaf/v1","nonce":…,"id":…,"kind":…,"amount":"25.00","currency":"OUSD",
     "from":…,"to":…,"note":…,"charge_id":…,"created_at":"2026-01-31T12:00:00.000000Z",
     "debit":…,"credit":…}

`from` and `to` are account ids. Only the hash of a leaf is published. `nonce` has 128 random
bits, so nobody can guess a leaf and find its hash in the log.

`debit` and `credit` commit to the two entries: each is SHA-256(salt || hash of the entry), in hex.
The holder of a receipt gets the salt of their own entry alone. The other entry's hash stays
hidden, because it covers the other account's balance: with the hashes of two successive entries of
that account, its balance could be found by trial.

The nonces and the salts of leaves that are sealed together are the output of SHAKE-256 for a seed
of 32 random bytes, which the server stores: 16 bytes for the nonce of the first leaf, 16 for the
salt of its debit, 16 for that of its credit, then those of the second leaf, and so on.
"""

import hashlib
import json
from typing import Any, Final, Literal

import msgspec

from ousel.kernel.clock import timestamp
from ousel.kernel.money import CURRENCY, json_from_micros
from ousel.ledger.rules import Entry, Kind

FORMAT: Final = "ousel-leaf/v1"
SECRET_BYTES: Final = 16
SEED_BYTES: Final = 32

Side = Literal["debit", "credit"]


class LeafRefused(Exception):
    """The bytes are not a leaf in the one form that is allowed."""


class Leaf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One movement as the log seals it. Its fields are in the order in which they are encoded."""

    format: Literal["ousel-leaf/v1"] = FORMAT
    nonce: str
    id: str
    kind: Kind
    amount: str
    currency: str
    from_: str = msgspec.field(name="from")
    to: str
    note: str | None
    charge_id: str | None
    created_at: str
    debit: str
    credit: str


class LeafSecrets(msgspec.Struct, frozen=True, gc=False):
    """The random parts of a leaf."""

    nonce: bytes
    debit_salt: bytes
    credit_salt: bytes

    def salt(self, side: Side) -> bytes:
        """Return the salt that hides this side's entry from the other side."""
        return self.debit_salt if side == "debit" else self.credit_salt


def derive_secrets(seed: bytes, count: int) -> list[LeafSecrets]:
    """Return the secrets of leaves that were sealed together."""
    return _split(hashlib.shake_256(seed).digest(count * 3 * SECRET_BYTES))


def derive_older_secrets(drawn: bytes) -> list[LeafSecrets]:
    """Return the secrets of leaves that were sealed when each leaf had 16 random bytes."""
    if len(drawn) % SECRET_BYTES:
        raise ValueError("each leaf has 16 bytes")
    return _split(
        b"".join(
            hashlib.sha256(drawn[at : at + SECRET_BYTES] + label).digest()[:SECRET_BYTES]
            for at in range(0, len(drawn), SECRET_BYTES)
            for label in (b"nonce", b"debit", b"credit")
        )
    )


def _split(random: bytes) -> list[LeafSecrets]:
    return [
        LeafSecrets(random[at : at + 16], random[at + 16 : at + 32], random[at + 32 : at + 48])
        for at in range(0, len(random), 3 * SECRET_BYTES)
    ]


def encode_leaf(debit: Entry, credit_hash: str, secrets: LeafSecrets) -> bytes:
    """Return the leaf of a movement, given its debit entry and the hash of its credit entry."""
    assert debit.amount < 0
    leaf = Leaf(
        nonce=secrets.nonce.hex(),
        id=debit.transfer_id,
        kind=debit.kind,
        amount=json_from_micros(-debit.amount),
        currency=CURRENCY,
        from_=debit.account_id,
        to=debit.counterparty_id,
        note=debit.note,
        charge_id=debit.charge_id,
        created_at=timestamp(debit.created_at),
        debit=commitment(secrets.debit_salt, debit.hash),
        credit=commitment(secrets.credit_salt, credit_hash),
    )
    return _encode_quickly(leaf)


# The sealer encodes every movement, and this encoder is several times as fast as that of
# `encode_canonically`. Both produce the same bytes.
_encode_quickly = msgspec.json.Encoder().encode


def decode_leaf(content: bytes) -> Leaf:
    """Return the movement of a leaf, or refuse any encoding but the canonical one."""
    try:
        leaf = msgspec.json.decode(content, type=Leaf)
    except (msgspec.DecodeError, UnicodeError):
        leaf = None
    if leaf is None or encode_canonically(msgspec.to_builtins(leaf)) != content:
        raise LeafRefused(f"the leaf is not in the form {FORMAT}")
    return leaf


def commitment(salt: bytes, entry_hash: str) -> str:
    """Return what a leaf says about an entry."""
    return hashlib.sha256(salt + bytes.fromhex(entry_hash)).hexdigest()


def encode_canonically(value: Any) -> bytes:
    """Return JSON without spaces in UTF-8, which is also what the hash of an entry covers."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
