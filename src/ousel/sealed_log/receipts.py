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
  of the receipt without `,"signature":"…"`. So every byte counts, also in what the leaf does not
  bind: the names of the two accounts.

A receipt must be signed by a key that also signed its checkpoint.

The same proof in the form of C2SP tlog-proof is a text, whose extra data is the leaf. It has no
names and no entry.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NoReturn

import msgspec

from ousel.kernel.clock import micros_from_timestamp
from ousel.kernel.errors import Refusal
from ousel.kernel.money import DECIMAL_PLACES, json_from_micros
from ousel.ledger.rules import Entry
from ousel.sealed_log.checkpoints import Checkpoint, open_checkpoint
from ousel.sealed_log.leaves import (
    Leaf,
    LeafRefused,
    Side,
    commitment,
    decode_leaf,
    encode_canonically,
    salt_of,
)
from ousel.sealed_log.merkle import (
    HASH_BYTES,
    PROOF_HASHES_MAX,
    ProofRefused,
    check_inclusion,
    leaf_hash,
)
from ousel.sealed_log.notes import (
    ED25519,
    NoteRefused,
    OpenedNote,
    Signature,
    SigningKey,
    VerifierKey,
    from_base64,
    is_signed,
    to_base64,
)

RECEIPT_BYTES_MAX: Final = 64 * 1024

_SIGNED_PREFIX: Final = b"ousel-receipt/v1\n"
_SIGNATURE: Final = re.compile(rb',"signature":"([A-Za-z0-9+/=]+)"}\Z')
_TEXT_FIRST_LINE: Final = "c2sp.org/tlog-proof@v1"
_PRIVATE_FIELDS: Final = ("balance_after", "idempotency_key", "sequence")
_AMOUNTS: Final = ("amount", "balance_after")
_AMOUNT: Final = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,6})?")
_SERVED_LAYOUT: Final[dict[str, Any]] = {"separators": (",", ":"), "ensure_ascii": False}
_OTHER_LAYOUTS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"ensure_ascii": False},
    {"indent": 2},
    {"indent": 2, "ensure_ascii": False},
)
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,18}")


class ReceiptRefused(Exception):
    """The receipt proves nothing: the reason in one sentence."""


class Inclusion(msgspec.Struct, frozen=True):
    """A leaf, and the proof that a log has it."""

    leaf: bytes
    index: int
    proof: Sequence[bytes]
    checkpoint: str  # a signed note


class OwnEntry(msgspec.Struct, frozen=True):
    """What a receipt proves about the holder's own account."""

    account_id: str
    sequence: int
    balance_after: int


class CheckedReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What a receipt proves."""

    movement: Leaf
    fingerprint: str
    index: int
    checkpoint: Checkpoint
    cosignatures: list[Signature]
    unknown_signatures: int
    own_entry: OwnEntry | None
    names: dict[str, str] | None  # by account id, as the operator signed them


def entry_part(entry: Entry, previous_hash: str, secret: bytes) -> dict[str, object]:
    """Return the `entry` of a receipt for the account that has this entry."""
    side: Side = "debit" if entry.amount < 0 else "credit"
    return {
        "sequence": entry.sequence,
        "previous_hash": previous_hash,
        "salt": salt_of(secret, side).hex(),
    }


def shareable_transfer(transfer: Mapping[str, object]) -> dict[str, object]:
    """Return the transfer record without what concerns the holder alone."""
    return {name: value for name, value in transfer.items() if name not in _PRIVATE_FIELDS}


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
    signature = to_base64(key.sign(_SIGNED_PREFIX + body)).encode()
    return body[:-1] + b',"signature":"' + signature + b'"}'


def encode_proof_text(inclusion: Inclusion) -> str:
    """Return the same proof in the form of C2SP tlog-proof."""
    hashes = "".join(f"{to_base64(each)}\n" for each in inclusion.proof)
    return (
        f"{_TEXT_FIRST_LINE}\nextra {to_base64(inclusion.leaf)}\nindex {inclusion.index}\n"
        f"{hashes}\n{inclusion.checkpoint}"
    )


def fingerprint(leaf: bytes) -> str:
    """Return 16 hexadecimal digits in groups, by which two people can compare a movement."""
    digits = hashlib.sha256(leaf).hexdigest()[:16].upper()
    return "-".join(digits[at : at + 4] for at in range(0, 16, 4))


def check_receipt(
    content: bytes, keys: Sequence[VerifierKey], witness_keys: Sequence[VerifierKey] = ()
) -> CheckedReceipt:
    """Return what a receipt in either form proves to someone who trusts these keys."""
    if len(content) > RECEIPT_BYTES_MAX:
        raise ReceiptRefused("the receipt is too long")
    try:
        if content.startswith(_TEXT_FIRST_LINE.encode()):
            return _check_inclusion(_parse_proof_text(content), keys, witness_keys)
        return _check_json(content, keys, witness_keys)
    except (NoteRefused, ProofRefused, LeafRefused) as error:
        raise ReceiptRefused(str(error)) from None


def _check_json(
    content: bytes, keys: Sequence[VerifierKey], witness_keys: Sequence[VerifierKey]
) -> CheckedReceipt:
    content = _as_served(content)
    match = _SIGNATURE.search(content)
    if match is None:
        raise ReceiptRefused("the receipt has no signature at its end")
    body, signature = content[: match.start()] + b"}", from_base64(match[1].decode())
    signed = _SIGNED_PREFIX + body
    signers = {
        key.name for key in keys if key.type == ED25519 and is_signed(key, signature, signed)
    }
    if not signers:
        raise ReceiptRefused("the receipt was changed, or it was signed with another key")
    receipt = _decode(body)
    try:
        inclusion = Inclusion(
            from_base64(receipt["leaf"]),
            receipt["index"],
            [from_base64(each) for each in receipt["proof"]],
            receipt["checkpoint"],
        )
        checked = _check_inclusion(
            inclusion, [key for key in keys if key.name in signers], witness_keys
        )
        return _with_transfer(checked, receipt["transfer"], receipt["entry"])
    except (KeyError, TypeError, AttributeError, ValueError, Refusal):
        raise ReceiptRefused("the receipt lacks a field, or a field has a wrong type") from None


def _check_inclusion(
    inclusion: Inclusion, keys: Sequence[VerifierKey], witness_keys: Sequence[VerifierKey]
) -> CheckedReceipt:
    if (
        type(inclusion.index) is not int
        or len(inclusion.proof) > PROOF_HASHES_MAX
        or any(len(each) != HASH_BYTES for each in inclusion.proof)
    ):
        raise ReceiptRefused("the inclusion proof is malformed")
    checkpoint, opened = open_checkpoint(inclusion.checkpoint, keys, witness_keys)
    movement = decode_leaf(inclusion.leaf)
    check_inclusion(
        leaf_hash(inclusion.leaf),
        inclusion.index,
        checkpoint.size,
        inclusion.proof,
        checkpoint.root,
    )
    return CheckedReceipt(
        movement=movement,
        fingerprint=fingerprint(inclusion.leaf),
        index=inclusion.index,
        checkpoint=checkpoint,
        cosignatures=_cosignatures(opened, witness_keys),
        unknown_signatures=opened.unknown_signatures,
        own_entry=None,
        names=None,
    )


def _cosignatures(opened: OpenedNote, witness_keys: Sequence[VerifierKey]) -> list[Signature]:
    return [each for each in opened.signatures if each.key in witness_keys]


def _with_transfer(
    checked: CheckedReceipt, transfer: dict[str, Any], entry: dict[str, Any] | None
) -> CheckedReceipt:
    """Compare the transfer record with the leaf, and the holder's entry with its commitment."""
    leaf = checked.movement
    shown = (
        ("id", transfer["id"], leaf.id),
        ("kind", transfer["kind"], leaf.kind),
        ("amount", transfer["amount"], Decimal(leaf.amount)),
        ("currency", transfer["currency"], leaf.currency),
        ("from", transfer["from"]["id"], leaf.from_),
        ("to", transfer["to"]["id"], leaf.to),
        ("note", transfer["note"], leaf.note),
        ("charge_id", transfer["charge_id"], leaf.charge_id),
        ("created_at", transfer["created_at"], leaf.created_at),
    )
    for name, value, sealed in shown:
        if value != sealed:
            raise ReceiptRefused(f"the receipt shows another {name} than the one that was sealed")
    if entry is None and any(name in transfer for name in _PRIVATE_FIELDS):
        raise ReceiptRefused("the receipt shows a balance that it does not prove")
    return msgspec.structs.replace(
        checked,
        names={party["id"]: party["display_name"] for party in (transfer["from"], transfer["to"])},
        own_entry=None if entry is None else _own_entry(leaf, transfer, entry),
    )


def _own_entry(leaf: Leaf, transfer: dict[str, Any], entry: dict[str, Any]) -> OwnEntry:
    is_debit = transfer["direction"] == "out"
    account_id, counterparty_id = (leaf.from_, leaf.to) if is_debit else (leaf.to, leaf.from_)
    amount = _micros(Decimal(leaf.amount))
    balance_after = _micros(transfer["balance_after"])
    fields = [
        account_id,
        entry["sequence"],
        leaf.id,
        leaf.kind,
        -amount if is_debit else amount,
        balance_after,
        counterparty_id,
        leaf.note,
        leaf.charge_id,
        transfer["idempotency_key"],
        micros_from_timestamp(leaf.created_at, param="created_at"),
    ]
    hashed = hashlib.sha256(entry["previous_hash"].encode() + encode_canonically(fields))
    committed = leaf.debit if is_debit else leaf.credit
    is_same_sequence = transfer.get("sequence", entry["sequence"]) == entry["sequence"]
    if not is_same_sequence or (
        commitment(bytes.fromhex(entry["salt"]), hashed.hexdigest()) != committed
    ):
        raise ReceiptRefused("the receipt shows another entry than the one that was sealed")
    return OwnEntry(account_id, entry["sequence"], balance_after)


def _micros(amount: Decimal | int) -> int:
    """Return an amount in millionths; a ValueError if it is not one that Ousel can write."""
    if not _AMOUNT.fullmatch(str(amount)):
        raise ValueError
    return int(Decimal(amount).scaleb(DECIMAL_PLACES))


def _parse_proof_text(content: bytes) -> Inclusion:
    try:
        head, _, checkpoint = content.decode().partition("\n\n")
    except UnicodeDecodeError:
        raise ReceiptRefused("the receipt is not UTF-8 text") from None
    lines = head.split("\n")
    index = lines[2].removeprefix("index ") if len(lines) > 2 else ""  # noqa: PLR2004
    if (
        lines[0] != _TEXT_FIRST_LINE
        or not lines[1:2]
        or not lines[1].startswith("extra ")
        or not _INDEX.fullmatch(index)
        or lines[2] != f"index {index}"
    ):
        raise ReceiptRefused("the receipt is not in the form c2sp.org/tlog-proof@v1")
    leaf = from_base64(lines[1].removeprefix("extra "))
    return Inclusion(leaf, int(index), [from_base64(each) for each in lines[3:]], checkpoint)


def _decode(content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(
            content.decode(),
            parse_float=Decimal,
            parse_constant=_refuse_constant,
            object_pairs_hook=_object_without_repeated_names,
        )
    except (ValueError, ArithmeticError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ReceiptRefused("the receipt is not a JSON object")
    return value


def _refuse_constant(_: str) -> NoReturn:
    raise ValueError


def _object_without_repeated_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError
    return members


def _as_served(content: bytes) -> bytes:
    """Return a receipt as the server wrote it, if a program has only reformatted it.

    Only the usual outputs of JSON encoders are recognized: on one line with spaces, or indented by
    two, with or without escapes, with amounts such as 25.00, 25.0 or 25. Any other change of a byte
    makes the signature wrong.
    """
    content = content.rstrip(b"\r\n")
    receipt = _decode(content)
    transfer = receipt.get("transfer")
    if not isinstance(transfer, dict):
        return content
    texts = {name: str(transfer[name]) for name in _AMOUNTS if name in transfer}
    if not all(_AMOUNT.fullmatch(text) for text in texts.values()):
        return content
    served = {name: json_from_micros(_micros(transfer[name])) for name in texts}
    try:
        if any(_dump(receipt, texts, layout) == content for layout in _OTHER_LAYOUTS):
            return _dump(receipt, served, _SERVED_LAYOUT)
    except (TypeError, UnicodeError):  # a fraction or a lone surrogate, which no receipt has
        pass
    return content


def _dump(receipt: dict[str, Any], amounts: Mapping[str, str], layout: dict[str, Any]) -> bytes:
    """Encode a receipt with its amounts written in this way."""
    marked = {name: f"\x00{name}\x00" for name in amounts}
    text = json.dumps(receipt | {"transfer": receipt["transfer"] | marked}, **layout)
    for name, amount in amounts.items():
        text = text.replace(f'"\\u0000{name}\\u0000"', amount)
    return text.encode()
