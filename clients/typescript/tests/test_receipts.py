"""The TypeScript client checks receipts as the Python client does."""

import json
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from clients.python.tests.test_receipts import VKEY, WITNESS
from ousel.sealed_log.notes import to_base64
from ousel_client import Receipt, ReceiptProof, ReceiptRefused
from tests.sealed_log.examples import KEY, movement, receipt_of
from tests.support.node import NODE

pytestmark = pytest.mark.one_engine

PROGRAM = Path(__file__).parent / "programs" / "receipts.mjs"
WITNESS_KEY = str(WITNESS.verifier)


def check_in_both(
    *cases: tuple[bytes, str], witness_key: str = WITNESS_KEY
) -> list[dict[str, Any]]:
    """Check each receipt with its key in both languages, and return what TypeScript says."""
    given = [
        {"content": content.decode(), "key": key, "witnessKeys": [witness_key]}
        for content, key in cases
    ]
    done = subprocess.run(
        [NODE, PROGRAM, "{}"],
        check=True,
        capture_output=True,
        input=json.dumps(given),
        text=True,
        timeout=300,
    )
    outcomes: list[dict[str, Any]] = json.loads(done.stdout)
    for (content, key), outcome in zip(cases, outcomes, strict=True):
        assert ("refused" in outcome) is (_check_in_python(content, key, witness_key) is None), (
            content
        )
    return outcomes


def _check_in_python(
    content: bytes, key: str, witness_key: str = WITNESS_KEY
) -> ReceiptProof | None:
    try:
        return Receipt(content).check(key, witness_keys=[witness_key])
    except ReceiptRefused:
        return None


def _sign(body: bytes) -> bytes:
    """Return a receipt with this body, signed by the log."""
    signature = to_base64(KEY.sign(b"ousel-receipt/v1\n" + body)).encode()
    return body[:-1] + b',"signature":"' + signature + b'"}'


@pytest.mark.slow
def test_a_receipt_proves_the_same_in_both_languages() -> None:
    """Both sides of a transfer, a receipt to show others, and a note that is hard to encode."""
    tricky = 'ä🐦 "\\ \u2028 \x7f\t</script> 12.50'
    contents = [
        receipt_of(movement(), side="debit", cosigners=(WITNESS,)),
        receipt_of(movement(), side="credit") + b"\n",
        receipt_of(movement(), is_shareable=True),
        receipt_of(movement(1, note=tricky, key=None)),
    ]

    for content, outcome in zip(
        contents, check_in_both(*((each, VKEY) for each in contents)), strict=True
    ):
        proof = _check_in_python(content, VKEY)
        assert proof is not None
        expected = {name: getattr(proof, name) for name in outcome}
        for name in ("amount", "balance_after"):
            outcome[name] = None if outcome[name] is None else Decimal(outcome[name])
        expected["created_at"] = f"{proof.created_at:%Y-%m-%dT%H:%M:%S.%f}Z"
        expected["witnesses"] = list(proof.witnesses)
        assert outcome == expected


@pytest.mark.slow
def test_a_receipt_changed_in_any_byte_is_refused() -> None:
    """All bytes are tried whose change leaves valid text."""
    content = receipt_of(movement(note="Lunch"), cosigners=(WITNESS,))
    changed = [
        content[:at] + bytes([byte ^ 1]) + content[at + 1 :]
        for at, byte in enumerate(content)
        if byte < 128
    ]

    assert content.endswith(b'=="}')
    changed.append(content[:-5] + bytes([content[-5] + 1]) + content[-4:])  # the same signature
    outcomes = check_in_both(*((each, VKEY) for each in changed))

    assert len(outcomes) > 1000
    assert {each["refused"] for each in outcomes} == {"ReceiptRefused"}


@pytest.mark.slow
def test_what_the_operator_signs_must_still_be_proven() -> None:
    """A receipt of another transfer, of another entry, or without sense; and a malformed key."""
    entry_changes: list[dict[str, Any]] = [{"sequence": 2}, {"salt": "00" * 16}, {"salt": "0"}]
    changes: list[dict[str, Any]] = [
        {"note": "Dinner"},
        {"amount": 1},
        {"to": {"id": "acct_c", "display_name": "Eve"}},
        {"balance_after": 1},
        {"idempotency_key": None},
        {"sequence": 2},
    ]
    content = receipt_of(movement())
    body = content[: content.rindex(b',"signature"')] + b"}"
    shareable = receipt_of(movement(), is_shareable=True)
    shareable_body = shareable[: shareable.rindex(b',"signature"')] + b"}"
    nonsense = [
        (b'"index":5', b'"index":6'),
        (b'"index":5', b'"index":"5"'),
        (b'"proof":["', b'"proof":["AAAA","'),
        (b'"checkpoint":"', b'"checkpoint":"x'),
        ("\N{EM DASH} pay.example".encode(), "\N{EM DASH} not.example".encode()),
        (b'"entry":{', b'"other":{'),
        (b'"balance_after":75.00', b'"balance_after":75.0000001'),
    ]
    keys = ["", "a+b+c", VKEY[:-1], VKEY.replace("pay", "buy"), "ä", WITNESS_KEY]
    assert check_in_both((content, VKEY), witness_key=VKEY)[0]["refused"] == "ReceiptRefused"
    signed = [
        *(receipt_of(movement(), changes=each) for each in changes),
        *(receipt_of(movement(), entry_changes=each) for each in entry_changes),
        *(_sign(body.replace(before, after)) for before, after in nonsense),
        *(
            _sign(shareable_body.replace(b'"direction"', field + b',"direction"'))
            for field in (b'"balance_after":75.00', b'"idempotency_key":"order-7"', b'"sequence":1')
        ),
    ]

    outcomes = check_in_both(
        (_sign(body), VKEY), *((each, VKEY) for each in signed), *((content, key) for key in keys)
    )

    assert outcomes[0]["transfer_id"]
    assert {each.get("refused") for each in outcomes[1:]} == {"ReceiptRefused"}
