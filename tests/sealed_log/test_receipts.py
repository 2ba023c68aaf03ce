"""Receipts: what they prove, and that every byte of them counts."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ousel.ledger.rules import FIRST_HASH
from ousel.sealed_log.leaves import (
    LeafRefused,
    decode_leaf,
    derive_secrets,
    encode_canonically,
    encode_leaf,
)
from ousel.sealed_log.notes import COSIGNATURE, SigningKey, from_base64, to_base64
from ousel.sealed_log.proof_text import encode_proof_text
from ousel.sealed_log.receipt_check import CheckedReceipt, check_receipt
from ousel.sealed_log.receipt_json import as_served
from ousel.sealed_log.receipts import ReceiptRefused, encode_receipt, entry_part
from tests.faults.sizes import FULL
from tests.sealed_log.examples import (
    KEY,
    SECRETS,
    SEED,
    LogInMemory,
    encode_transfer,
    log_with,
    movement,
    receipt_of,
    transfer_record,
)

WITNESS = SigningKey("witness.example.com/w1", bytes(32), COSIGNATURE)

ALIKE_IN_JSON = b"0eE+ \n\t/\0"  # may replace another byte and not change the meaning

notes = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
amounts = st.integers(1, 100_000_000)


def check(receipt: bytes) -> CheckedReceipt:
    return check_receipt(receipt, [KEY.verifier], [WITNESS.verifier])


@given(amount=amounts, note=notes, side=st.sampled_from(["debit", "credit"]))
def test_a_receipt_proves_the_movement_and_the_holders_entry(
    amount: int, note: str | None, side: str
) -> None:
    """The holder learns that the movement is in the log as shown, and so is their balance."""
    moved = movement(amount, note=note)
    checked = check(receipt_of(moved, side=side, cosigners=(WITNESS,)))
    entry = moved.debit if side == "debit" else moved.credit
    leaf = checked.movement
    assert (leaf.id, leaf.note, leaf.from_, leaf.to) == (
        entry.transfer_id, note, moved.debit.account_id, moved.credit.account_id,
    )  # fmt: skip
    assert checked.own_entry is not None
    assert checked.own_entry.balance_after == entry.balance_after
    assert [each.key.name for each in checked.cosignatures] == ["witness.example.com/w1"]


@given(note=notes)
def test_a_receipt_to_show_others_has_no_balance(note: str | None) -> None:
    """It proves the movement all the same."""
    receipt = receipt_of(movement(note=note), is_shareable=True)
    checked = check(receipt)
    assert checked.own_entry is None
    assert checked.movement.note == note
    transfer = json.loads(receipt)["transfer"]
    assert not {"balance_after", "idempotency_key", "sequence"} & set(transfer)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["own", "shareable", "indented"])
def test_a_receipt_with_any_other_byte_anywhere_is_refused(form: str) -> None:
    """Each byte is left out, or replaced, also by others that often mean the same in JSON."""
    receipt = receipt_of(movement(), is_shareable=form == "shareable", cosigners=(WITNESS,))
    if form == "indented":
        receipt = json.dumps(json.loads(receipt), indent=2).encode()
    check_receipt(receipt, [KEY.verifier])
    for at, byte in enumerate(receipt):
        others = [
            bytes([other]) for other in (byte ^ 1, byte ^ 32, *ALIKE_IN_JSON) if other != byte
        ]
        changes = others if form == "indented" else [*others, b""]
        for change in changes if FULL else {changes[0], changes[at % len(changes)]}:
            with pytest.raises(ReceiptRefused):
                check_receipt(receipt[:at] + change + receipt[at + 1 :], [KEY.verifier])


@pytest.mark.slow
def test_a_proof_text_changed_in_any_byte_is_refused() -> None:
    """This form has no signature of its own, so the key of the witness must be given too."""
    log, index = log_with(movement())
    text = encode_proof_text(log.inclusion(index, WITNESS)).encode()
    assert check(text).movement.id
    for at, byte in enumerate(text):
        try:
            found = check(text[:at] + bytes([byte ^ 1]) + text[at + 1 :])
        except ReceiptRefused:
            continue
        # A changed name or key id belongs to another, unknown key, whom nobody trusts.
        assert found.cosignatures == []
        assert found.unknown_signatures == 1


@pytest.mark.parametrize(
    "layout",
    [
        {},
        {"ensure_ascii": False},
        {"indent": 2},
        {"indent": 2, "ensure_ascii": False},
        {"indent": 4},
        {"indent": "\t", "ensure_ascii": False},
    ],
)
@pytest.mark.parametrize("amount", [25_000_000, 12_345_678, 10])
def test_a_reformatted_receipt_is_accepted(layout: dict[str, Any], amount: int) -> None:
    """A program that decodes the receipt and encodes it again does no harm."""
    receipt = receipt_of(movement(amount))
    decoded = json.loads(receipt)
    if layout.get("indent") and amount == 25_000_000:
        decoded["transfer"]["balance_after"] = 75
    reformatted = json.dumps(decoded, **layout).encode()
    assert check(reformatted + b"\n") == check(receipt)
    with pytest.raises(ReceiptRefused):
        check(reformatted.replace(b": ", b":  ", 1).replace(b",", b" ,", 1))


def test_a_receipt_that_jq_has_written_is_recognized() -> None:
    """It writes 0.00001 as 1e-05, but 75.00 as 75."""
    receipt = receipt_of(movement(10), changes={"balance_after": 75_000_000})
    decoded = json.loads(receipt)
    decoded["transfer"]["balance_after"] = 75
    reformatted = json.dumps(decoded, indent=2, ensure_ascii=False).encode()
    assert b'"amount": 1e-05' in reformatted
    assert as_served(reformatted) == receipt


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"id": "tr_other"}, "id"),
        ({"kind": "funding"}, "kind"),
        ({"amount": 25_000_001}, "amount"),
        ({"currency": "USD"}, "currency"),
        ({"from": {"id": "acct_c", "display_name": "Ada"}}, "from"),
        ({"to": {"id": "acct_c", "display_name": "Ada"}}, "to"),
        ({"note": "Dinner"}, "note"),
        ({"note": None}, "note"),
        ({"charge_id": "ch_1"}, "charge_id"),
        ({"created_at": "2026-01-01T00:00:00.000001Z"}, "created_at"),
    ],
)
def test_a_signed_receipt_must_show_what_was_sealed(changes: dict[str, Any], name: str) -> None:
    """An operator who signs another transfer than the one in the log is found out."""
    with pytest.raises(ReceiptRefused, match=f'the field "{name}" of the receipt'):
        check(receipt_of(movement(), changes=changes))


@pytest.mark.parametrize(
    ("changes", "entry_changes"),
    [
        ({"balance_after": 75_000_001}, {}),
        ({"idempotency_key": "order-8"}, {}),
        ({"idempotency_key": None}, {}),
        ({"direction": "in"}, {}),
        ({"sequence": 2}, {}),
        ({}, {"sequence": 2}),
        ({}, {"previous_hash": "1" * 64}),
        ({}, {"salt": "00" * 16}),
    ],
)
def test_a_signed_receipt_must_show_the_sealed_entry(
    changes: dict[str, Any], entry_changes: dict[str, Any]
) -> None:
    """An operator who signs another balance than the one in the log is found out."""
    with pytest.raises(ReceiptRefused, match="another entry"):
        check(receipt_of(movement(), changes=changes, entry_changes=entry_changes))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"entry":{', b'"entry":null,"was":{'),
        (b'"leaf":"', b'"leaf":"AA'),
        (b'"index":5', b'"index":6'),
        (b'"index":5', b'"index":true'),
        (b'"index":5', b'"index":5,"index":5'),
        (b'"proof":["', b'"proof":["AAAA","'),
        (b'"checkpoint":"', b'"checkpoint":"x'),
        (b'"checkpoint":"', b'"checkpoint":7,"was":"'),
        (b'"transfer":{', b'"transfer":7,"was":{'),
        (b'"salt":"', b'"salt":"x'),
        (b'"balance_after":75.00', b'"balance_after":75.0000009'),
        (b'"balance_after":75.00', b'"balance_after":1e999999999'),
        (b'"balance_after":75.00', b'"balance_after":1e99999999999999999999'),
        (b'"balance_after":75.00', b'"balance_after":NaN'),
    ],
)
def test_a_signed_receipt_that_makes_no_sense_is_refused(before: bytes, after: bytes) -> None:
    """The signature of the operator does not replace the proof."""
    receipt = receipt_of(movement())
    assert before in receipt
    body = receipt[: receipt.rindex(b',"signature"')].replace(before, after) + b"}"
    signature = to_base64(KEY.sign(b"ousel-receipt/v1\n" + body)).encode()
    with pytest.raises(ReceiptRefused):
        check(body[:-1] + b',"signature":"' + signature + b'"}')


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{}", b"[]", b"null", b"\xff", b"{", b'{"transfer":{"amount":1E+999999999}}',
        b"c2sp.org/tlog-proof@v1", b"c2sp.org/tlog-proof@v1\nextra AA==\nindex 01\n\nx\n",
        b"[" * 60_000, b" " * 70_000, b'{"transfer":[]}', b'{"a":1e99999999999999999999}',
    ],
)  # fmt: skip
def test_what_is_not_a_receipt_is_refused(content: bytes) -> None:
    with pytest.raises(ReceiptRefused):
        check(content)


@given(content=st.binary(max_size=200))
def test_bytes_of_any_kind_are_refused_politely(content: bytes) -> None:
    for prefix in (b"", b"c2sp.org/tlog-proof@v1\n", b'{"transfer":{"amount":'):
        with pytest.raises(ReceiptRefused):
            check(prefix + content)


@pytest.mark.parametrize("amount", ["abc", "sNaN", "1e9", ""])
def test_a_leaf_with_an_impossible_amount_is_refused(amount: str) -> None:
    """Anyone can sign such a leaf with a key of their own."""
    moved = movement()
    leaf = json.loads(encode_leaf(moved.debit, moved.credit.hash, SECRETS)) | {"amount": amount}
    log = LogInMemory([encode_canonically(leaf)])
    own = entry_part(moved.debit, FIRST_HASH, SECRETS)
    transfer = encode_transfer(transfer_record(moved.debit))
    with pytest.raises(ReceiptRefused):
        check(encode_receipt(transfer, own, log.inclusion(0), KEY))


def test_a_receipt_of_another_log_is_refused() -> None:
    """A key proves nothing about a log with another name."""
    other = SigningKey("other.example.com/log", bytes(range(32)))
    with pytest.raises(ReceiptRefused):
        check_receipt(receipt_of(movement()), [other.verifier])


def test_a_receipt_is_signed_with_the_key_of_its_checkpoint() -> None:
    """Otherwise, whoever has one key of a log could make receipts with checkpoints of another."""
    other = SigningKey(KEY.verifier.name, bytes(32))
    moved = movement()
    log, index = log_with(moved)
    transfer = encode_transfer(transfer_record(moved.debit))
    own = entry_part(moved.debit, FIRST_HASH, SECRETS)

    def check_signed_with(key: SigningKey) -> None:
        receipt = encode_receipt(transfer, own, log.inclusion(index), key)
        check_receipt(receipt, [KEY.verifier, other.verifier])

    check_signed_with(KEY)
    with pytest.raises(ReceiptRefused):
        check_signed_with(other)


@given(amount=amounts, note=notes)
def test_a_leaf_has_one_spelling(amount: int, note: str | None) -> None:
    """Two leaves that read alike are equal, so no leaf can be read in two ways."""
    moved = movement(amount, note=note)
    leaf = encode_leaf(moved.debit, moved.credit.hash, SECRETS)
    assert decode_leaf(leaf).note == note
    members = leaf[:-1] + b',"amount":"1.00"}'
    for other in (leaf + b" ", members, leaf.replace(b'","', b'", "', 1), json.dumps(
        json.loads(leaf)).encode()):  # fmt: skip
        with pytest.raises(LeafRefused):
            decode_leaf(other)


def test_leaves_of_equal_movements_differ_by_their_secrets() -> None:
    """Whoever knows all fields of a movement still cannot find its hash in the log."""
    moved = movement()
    secrets = [each for byte in range(3) for each in derive_secrets(bytes([byte] * 32), 3)]
    leaves = {encode_leaf(moved.debit, moved.credit.hash, each) for each in secrets}
    assert len(leaves) == 9


def test_a_receipt_does_not_reveal_the_other_entry() -> None:
    """Neither the hash of the other entry nor its salt nor the secret is in the receipt."""
    moved = movement()
    receipt = json.loads(receipt_of(moved, side="credit"))
    text = json.dumps(receipt) + from_base64(receipt["leaf"]).decode()
    for hidden in (moved.debit.hash, SECRETS.debit_salt.hex(), SEED.hex(), "75.00", "order-7"):
        assert hidden not in text


@given(note=notes, key=st.none() | st.text(max_size=5), number=st.integers())
def test_the_encoding_of_entries_is_plain_json(
    note: str | None, key: str | None, number: int
) -> None:
    """So a program without Ousel can recompute the hash of an entry."""
    fields = [note, number % 2**63, key, "x"]
    assert encode_canonically(fields) == msgspec.json.encode(fields)


def test_the_own_entry_has_the_hash_that_the_ledger_gave_it() -> None:
    moved = movement()
    checked = check(receipt_of(moved))
    assert checked.own_entry is not None
    assert checked.own_entry.sequence == moved.debit.sequence == 1
    assert checked.fingerprint.count("-") == 3
