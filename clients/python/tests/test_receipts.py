"""Receipts are checked without the server, and every byte of them counts."""

import sys
from decimal import Decimal, Inexact, localcontext
from typing import Any

import pytest

from ousel.sealed_log.notes import COSIGNATURE, SigningKey, to_base64
from ousel_client import Receipt, ReceiptRefused
from tests.sealed_log.examples import KEY, movement, receipt_of

pytestmark = pytest.mark.one_engine

VKEY = str(KEY.verifier)
WITNESS = SigningKey("witness.example.com/w1", bytes(32), COSIGNATURE)


@pytest.mark.parametrize("side", ["debit", "credit"])
def test_a_receipt_proves_the_transfer_and_the_balance(side: str) -> None:
    moved = movement()
    entry = moved.debit if side == "debit" else moved.credit
    receipt = Receipt(receipt_of(moved, side=side, cosigners=(WITNESS,)))

    proof = receipt.check(VKEY, witness_keys=[str(WITNESS.verifier)])

    assert proof.transfer_id == entry.transfer_id
    assert (proof.amount, proof.note) == (Decimal(25), "Lunch — déjà vu")
    assert (proof.from_account_id, proof.to_account_id) == ("acct_a", "acct_b")
    assert proof.balance_after == Decimal(entry.balance_after) / 1_000_000
    assert (proof.sequence, proof.index, proof.size) == (1, 5, 13)
    assert proof.witnesses == ("witness.example.com/w1",)
    assert receipt.check(VKEY).witnesses == ()


def test_the_decimal_context_of_the_program_does_not_matter() -> None:
    receipt = Receipt(receipt_of(movement(1_234_567)))

    with localcontext() as context:
        context.prec = 3
        context.traps[Inexact] = True
        proof = receipt.check(VKEY)

    assert (proof.amount, proof.balance_after) == (Decimal("1.234567"), Decimal("98.765433"))


def test_a_receipt_to_show_others_proves_the_transfer_alone() -> None:
    proof = Receipt(receipt_of(movement(), is_shareable=True)).check(VKEY)

    assert (proof.balance_after, proof.sequence) == (None, None)


@pytest.mark.slow
def test_a_receipt_changed_in_any_byte_is_refused() -> None:
    content = receipt_of(movement(), cosigners=(WITNESS,))
    for at, byte in enumerate(content):
        changed = Receipt(content[:at] + bytes([byte ^ 1]) + content[at + 1 :])
        with pytest.raises(ReceiptRefused):
            changed.check(VKEY)


@pytest.mark.parametrize(
    ("changes", "entry_changes"),
    [
        ({"note": "Dinner"}, {}),
        ({"amount": 1}, {}),
        ({"to": {"id": "acct_c", "display_name": "Eve"}}, {}),
        ({"balance_after": 1}, {}),
        ({"idempotency_key": None}, {}),
        ({}, {"sequence": 2}),
        ({"sequence": 2}, {}),
        ({}, {"salt": "00" * 16}),
    ],
)
def test_the_operators_signature_does_not_replace_the_proof(
    changes: dict[str, Any], entry_changes: dict[str, Any]
) -> None:
    receipt = Receipt(receipt_of(movement(), changes=changes, entry_changes=entry_changes))
    with pytest.raises(ReceiptRefused, match="than the one that was sealed"):
        receipt.check(VKEY)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"index":5', b'"index":6'),
        (b'"index":5', b'"index":"5"'),
        (b'"proof":["', b'"proof":["AAAA","'),
        (b'"checkpoint":"', b'"checkpoint":"x'),
        (b'"entry":{', b'"other":{'),
        (b'"balance_after":75.00', b'"balance_after":75.0000001'),
        (b'"balance_after":75.00', b'"balance_after":75.' + b"0" * 40 + b"1"),
        (b'"checkpoint":"', b'"checkpoint":5,"other":"'),
        (b'"previous_hash":"', b'"previous_hash":5,"other":"'),
        (b'"index":5', b'"other":' + b"[" * 9_000 + b"]" * 9_000),
    ],
)
def test_a_signed_receipt_that_makes_no_sense_is_refused(before: bytes, after: bytes) -> None:
    with pytest.raises(ReceiptRefused):
        _signed_with(before, after).check(VKEY)


def test_no_amount_is_computed_with_that_would_take_minutes() -> None:
    receipt = _signed_with(b'"balance_after":75.00', b'"balance_after":1E+300000')
    with pytest.raises(ReceiptRefused, match="An amount is malformed"):
        receipt.check(VKEY)


def _signed_with(before: bytes, after: bytes) -> Receipt:
    """Return a receipt in which the log has signed something else."""
    content = receipt_of(movement())
    assert before in content
    body = content[: content.rindex(b',"signature"')].replace(before, after) + b"}"
    signature = to_base64(KEY.sign(b"ousel-receipt/v1\n" + body)).encode()
    return Receipt(body[:-1] + b',"signature":"' + signature + b'"}')


@pytest.mark.parametrize("key", ["", "a+b+c", VKEY[:-1], VKEY.replace("pay", "buy"), "ä"])
def test_a_malformed_key_is_refused(key: str) -> None:
    with pytest.raises(ReceiptRefused):
        Receipt(receipt_of(movement())).check(key)


def test_the_key_of_a_witness_is_not_the_key_of_a_log() -> None:
    with pytest.raises(ReceiptRefused, match="does not belong to a log"):
        Receipt(receipt_of(movement())).check(str(WITNESS.verifier))


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named as it is installed from everywhere, which the client itself is not."""
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)

    with pytest.raises(ImportError, match="install the package cryptography"):
        Receipt(receipt_of(movement())).check(VKEY)
