"""Receipts, and how to check them without the network.

The formats are explained on the page "Proof" of Ousel's documentation.
"""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import Any, Final

from ousel_client.errors import OuselError

_SIGNATURE: Final = re.compile(rb',"signature":"([A-Za-z0-9+/=]+)"}\Z')
_SIGNED_PREFIX: Final = b"ousel-receipt/v1\n"
_LEAF_FORMAT: Final = "ousel-leaf/v1"
_ED25519: Final = 1  # signs a text
_COSIGNATURE: Final = 4  # signs a text and the time
_HASH_BYTES: Final = 32
_PRIVATE_FIELDS: Final = frozenset({"balance_after", "idempotency_key", "sequence"})
_AMOUNT: Final = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,6})?")
_DECIMAL_PLACES: Final = 6
_EXACT: Final = Context(prec=40)  # the context of the program may round
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ReceiptRefused(OuselError):
    """The receipt does not prove what it shows, or the key is malformed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptProof:
    """What a receipt proves to whoever trusts the key.

    `balance_after` and `sequence` are about the holder's own account, and None in a receipt that
    does not show them. `witnesses` are the names of the given witnesses that cosigned.
    """

    transfer_id: str
    kind: str
    amount: Decimal
    currency: str
    from_account_id: str
    to_account_id: str
    note: str | None
    charge_id: str | None
    created_at: datetime
    balance_after: Decimal | None
    sequence: int | None
    origin: str
    index: int
    size: int
    witnesses: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptParts:
    """The fields without which an answer is not a receipt."""

    leaf: str
    checkpoint: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """A receipt as the server sent it. Store `content` unchanged: every byte of it is signed."""

    content: bytes

    def check(self, key: str, *, witness_keys: Sequence[str] = ()) -> ReceiptProof:
        """Return what the receipt proves, or raise ReceiptRefused. Needs no network.

        `key` is the verifier key of the log, from its address /log/key.
        """
        try:
            log, witnesses = _parse_key(key), [_parse_key(each) for each in witness_keys]
            _require(
                all(each.type == _COSIGNATURE for each in witnesses),
                "A key of a log was given as that of a witness.",
            )
            return _check(self.content.rstrip(b"\r\n"), log, witnesses)
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            raise ReceiptRefused("The receipt or a key is malformed.") from error


@dataclass(frozen=True, slots=True)
class _Key:
    name: str
    id: bytes
    type: int
    public: bytes

    def verify(self, signature: bytes, message: bytes) -> None:
        try:
            from cryptography.exceptions import InvalidSignature
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        except ImportError as error:
            raise ImportError("To check receipts, install the package cryptography.") from error
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, message)
        except InvalidSignature:
            raise ReceiptRefused(f"A signature of {self.name} is wrong.") from None


def _parse_key(text: str) -> _Key:
    name, key_id, encoded = text.strip().split("+", 2)
    content = _decode(encoded)
    computed = hashlib.sha256(name.encode() + b"\n" + content).digest()[:4]
    _require(computed.hex() == key_id, "The id of a verifier key does not match its key.")
    _require(content[0] in {_ED25519, _COSIGNATURE}, "A verifier key has an unknown type.")
    return _Key(name, computed, content[0], content[1:])


def _check(content: bytes, log: _Key, witnesses: list[_Key]) -> ReceiptProof:
    match = _SIGNATURE.search(content)
    if match is None or log.type != _ED25519:
        raise ReceiptRefused("The receipt has no signature, or the key does not belong to a log.")
    body = content[: match.start()] + b"}"
    log.verify(_decode(match[1].decode()), _SIGNED_PREFIX + body)
    receipt: dict[str, Any] = json.loads(body, parse_float=Decimal)
    size, root, cosigned_by = _open_checkpoint(receipt["checkpoint"], log, witnesses)
    sealed = _decode(receipt["leaf"])
    proof = [_decode(each) for each in receipt["proof"]]
    _require(
        _root(sealed, receipt["index"], size, proof) == root,
        "The inclusion proof does not lead from this leaf to the root of the log.",
    )
    leaf: dict[str, Any] = json.loads(sealed)
    is_known = _encode(leaf) == sealed and leaf["format"] == _LEAF_FORMAT
    _require(is_known, "The leaf has an unknown form.")
    transfer, entry = receipt["transfer"], receipt["entry"]
    _require_same(transfer, leaf)
    if entry is not None:
        _check_entry(transfer, entry, leaf)
    elif not _PRIVATE_FIELDS.isdisjoint(transfer):
        raise ReceiptRefused("The receipt shows fields that it does not prove.")
    return ReceiptProof(
        transfer_id=leaf["id"],
        kind=leaf["kind"],
        amount=Decimal(leaf["amount"]),
        currency=leaf["currency"],
        from_account_id=leaf["from"],
        to_account_id=leaf["to"],
        note=leaf["note"],
        charge_id=leaf["charge_id"],
        created_at=datetime.fromisoformat(leaf["created_at"]),
        balance_after=None if entry is None else Decimal(transfer["balance_after"]),
        sequence=None if entry is None else entry["sequence"],
        origin=log.name,
        index=receipt["index"],
        size=size,
        witnesses=cosigned_by,
    )


def _open_checkpoint(
    note: str, log: _Key, witnesses: list[_Key]
) -> tuple[int, bytes, tuple[str, ...]]:
    """Return the size and root that the log signed, and the witnesses that cosigned them."""
    text, _, lines = note.rpartition("\n\n")
    text += "\n"
    signed_by = set()
    for line in lines.split("\n")[:-1]:
        dash, name, encoded = line.split(" ")
        signature = _decode(encoded)
        _require(dash == "—", "The checkpoint has a malformed signature.")
        for key in (log, *witnesses):
            if (name, signature[:4]) != (key.name, key.id):
                continue
            if key.type == _ED25519:
                key.verify(signature[4:], text.encode())
            else:
                seconds = int.from_bytes(signature[4:12])
                key.verify(signature[12:], f"cosignature/v1\ntime {seconds}\n{text}".encode())
            signed_by.add(key)
    origin, size, root = text.split("\n")[:3]
    _require(origin == log.name and log in signed_by, "The log did not sign the checkpoint.")
    cosigned_by = tuple(key.name for key in witnesses if key in signed_by)
    return int(size), _decode(root), cosigned_by


def _root(leaf: bytes, index: int, size: int, proof: Sequence[bytes]) -> bytes:
    """Return the root to which an inclusion proof leads (RFC 6962)."""
    _require(type(index) is int and 0 <= index < size, "The leaf is not in the log.")
    node, last, siblings = hashlib.sha256(b"\x00" + leaf).digest(), size - 1, list(proof)
    while last:
        if index % 2 or index != last:
            _require(siblings, "The inclusion proof is too short.")
            sibling = siblings.pop(0)
            _require(len(sibling) == _HASH_BYTES, "The inclusion proof is malformed.")
            pair = sibling + node if index % 2 else node + sibling
            node = hashlib.sha256(b"\x01" + pair).digest()
        index, last = index // 2, last // 2
    _require(not siblings, "The inclusion proof is too long.")
    return node


def _require_same(transfer: dict[str, Any], leaf: dict[str, Any]) -> None:
    """Compare the transfer that the receipt shows with the one that was sealed."""
    names = ("id", "kind", "currency", "note", "charge_id", "created_at")
    is_same = (
        all(transfer[name] == leaf[name] for name in names)
        and all(transfer[name]["id"] == leaf[name] for name in ("from", "to"))
        and transfer["amount"] == _amount(leaf["amount"])
    )
    _require(is_same, "The receipt shows another transfer than the one that was sealed.")


def _check_entry(transfer: dict[str, Any], entry: dict[str, Any], leaf: dict[str, Any]) -> None:
    """Recompute the hash of the holder's own entry, and compare it with the leaf."""
    is_debit = transfer["direction"] == "out"
    own, other = (leaf["from"], leaf["to"]) if is_debit else (leaf["to"], leaf["from"])
    amounts = (_amount(leaf["amount"]), _amount(transfer["balance_after"]))
    amount, balance = (int(_EXACT.scaleb(each, _DECIMAL_PLACES)) for each in amounts)
    created = datetime.fromisoformat(leaf["created_at"]) - _EPOCH
    fields = [
        own,
        entry["sequence"],
        leaf["id"],
        leaf["kind"],
        -amount if is_debit else amount,
        balance,
        other,
        leaf["note"],
        leaf["charge_id"],
        transfer["idempotency_key"],
        created // timedelta(microseconds=1),
    ]
    hashed = hashlib.sha256(entry["previous_hash"].encode() + _encode(fields)).digest()
    committed = hashlib.sha256(bytes.fromhex(entry["salt"]) + hashed).hexdigest()
    is_same = (
        committed == leaf["debit" if is_debit else "credit"]
        and transfer.get("sequence", entry["sequence"]) == entry["sequence"]
    )
    _require(is_same, "The receipt shows another entry than the one that was sealed.")


def _amount(value: Decimal | int | str) -> Decimal:
    """Return an amount of usual form. It could take minutes to compute with 1E+300000."""
    _require(_AMOUNT.fullmatch(str(value)), "An amount is malformed.")
    return Decimal(value)


def _encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _decode(text: str) -> bytes:
    content = base64.b64decode(text, validate=True)
    _require(base64.b64encode(content).decode() == text, "A Base64 text is not in canonical form.")
    return content


def _require(condition: object, otherwise: str) -> None:
    if not condition:
        raise ReceiptRefused(otherwise)
