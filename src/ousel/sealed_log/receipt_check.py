"""Checking a receipt, in either form, with nothing but the receipt and the keys."""

import hashlib
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec

from ousel.kernel.clock import micros_from_timestamp
from ousel.kernel.errors import Refusal
from ousel.sealed_log.checkpoints import Checkpoint, open_checkpoint
from ousel.sealed_log.leaves import Leaf, LeafRefused, commitment, decode_leaf, encode_canonically
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
    Signature,
    VerifierKey,
    from_base64,
    is_signed,
)
from ousel.sealed_log.proof_text import is_proof_text, parse_proof_text
from ousel.sealed_log.receipt_json import as_served, decode_receipt, micros_from_decimal
from ousel.sealed_log.receipts import (
    PRIVATE_FIELDS,
    SIGNED_PREFIX,
    Inclusion,
    ReceiptRefused,
    fingerprint,
)

RECEIPT_BYTES_MAX: Final = 64 * 1024

_SIGNATURE: Final = re.compile(rb',"signature":"([A-Za-z0-9+/=]+)"}\Z')


class AccountNames(msgspec.Struct, frozen=True):
    """What the operator calls an account: signed in a receipt, but not part of the log."""

    account_id: str
    username: str
    account_number: str
    display_name: str


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
    names: list[AccountNames]  # of the sender and the recipient; none in the text form


def check_receipt(
    content: bytes, keys: Sequence[VerifierKey], witness_keys: Sequence[VerifierKey] = ()
) -> CheckedReceipt:
    """Return what a receipt in either form proves to someone who trusts these keys."""
    if len(content) > RECEIPT_BYTES_MAX:
        raise ReceiptRefused("the receipt is too long")
    try:
        if is_proof_text(content):
            return _check_inclusion(parse_proof_text(content), keys, witness_keys)
        return _check_json(content, keys, witness_keys)
    except (NoteRefused, ProofRefused, LeafRefused) as error:
        raise ReceiptRefused(str(error)) from None


def _check_json(
    content: bytes, keys: Sequence[VerifierKey], witness_keys: Sequence[VerifierKey]
) -> CheckedReceipt:
    content = as_served(content)
    match = _SIGNATURE.search(content)
    if match is None:
        raise ReceiptRefused("the receipt has no signature at its end")
    body, signature = content[: match.start()] + b"}", from_base64(match[1].decode())
    signed = SIGNED_PREFIX + body
    signers = [key for key in keys if key.type == ED25519 and is_signed(key, signature, signed)]
    if not signers:
        raise ReceiptRefused("the receipt was changed, or it was signed with another key")
    receipt = decode_receipt(body)
    try:
        inclusion = Inclusion(
            from_base64(receipt["leaf"]),
            receipt["index"],
            [from_base64(each) for each in receipt["proof"]],
            receipt["checkpoint"],
        )
        checked = _check_inclusion(inclusion, signers, witness_keys)
        return _with_transfer(checked, receipt["transfer"], receipt["entry"])
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError, Refusal):
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
        cosignatures=opened.signatures_of(witness_keys),
        unknown_signatures=opened.unknown_signatures,
        own_entry=None,
        names=[],
    )


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
            raise ReceiptRefused(f'the field "{name}" of the receipt is not what was sealed')
    if entry is None and any(name in transfer for name in PRIVATE_FIELDS):
        raise ReceiptRefused("the receipt shows private fields that it does not prove")
    return msgspec.structs.replace(
        checked,
        names=[
            AccountNames(
                party["id"], party["username"], party["account_number"], party["display_name"]
            )
            for party in (transfer["from"], transfer["to"])
        ],
        own_entry=None if entry is None else _own_entry(leaf, transfer, entry),
    )


def _own_entry(leaf: Leaf, transfer: dict[str, Any], entry: dict[str, Any]) -> OwnEntry:
    is_debit = transfer["direction"] == "out"
    account_id, counterparty_id = (leaf.from_, leaf.to) if is_debit else (leaf.to, leaf.from_)
    amount = micros_from_decimal(Decimal(leaf.amount))
    balance_after = micros_from_decimal(transfer["balance_after"])
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
