"""The example script checks receipts as Ousel does, with nothing of Ousel."""

import ast
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from ousel.sealed_log.notes import COSIGNATURE, SigningKey, sign_note, to_base64
from ousel.sealed_log.proof_text import encode_proof_text
from tests.sealed_log.examples import KEY, log_with, movement, receipt_of

SCRIPT = Path(__file__).parents[2] / "examples" / "check_receipt.py"
LINES_MAX = 150
WITNESS = SigningKey("witness.example.com/w1", bytes(32), COSIGNATURE)


def check(path: Path, receipt: bytes, *keys: SigningKey) -> subprocess.CompletedProcess[str]:
    """Run the script without access to Ousel's packages."""
    file = path / "receipt"
    file.write_bytes(receipt)
    arguments = [str(file), *(str(key.verifier) for key in keys)]
    return subprocess.run(
        [sys.executable, "-P", SCRIPT, *arguments], capture_output=True, text=True, check=False
    )


def test_the_script_is_short_and_needs_no_ousel() -> None:
    text = SCRIPT.read_text()
    assert len(text.splitlines()) <= LINES_MAX
    imported = {
        (node.module or "").split(".")[0] if isinstance(node, ast.ImportFrom) else name.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    assert imported - set(sys.stdlib_module_names) == {"cryptography"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("is_shareable", "before", "after", "reason"),
    [
        (False, b'"sequence":1', b'"sequence":2', "another entry"),
        (False, b'"balance_after":75.00', b'"balance_after":75.0000001', "another entry"),
        (False, b'"balance_after":75.00', b'"balance_after":75.%040d' % 1, "another entry"),
        (False, b'"balance_after":75.00', b'"balance_after":1E+300000', "malformed"),
        (False, b'"checkpoint":"', b'"checkpoint":5,"other":"', "malformed"),
        (False, b'"previous_hash":"', b'"previous_hash":5,"other":"', "malformed"),
        (True, b'"index":5', b'"x":' + b"[" * 9_000 + b"]" * 9_000, "malformed"),
        (True, b'"direction"', b'"sequence":1,"direction"', "does not prove"),
    ],
)
def test_the_script_refuses_what_is_shown_but_not_proven(
    tmp_path: Path, before: bytes, after: bytes, reason: str, *, is_shareable: bool
) -> None:
    """It says so in one line. With 1E+300000, one could compute for minutes."""
    receipt = receipt_of(movement(), is_shareable=is_shareable)
    body = receipt[: receipt.rindex(b',"signature"')].replace(before, after, 1) + b"}"
    signature = to_base64(KEY.sign(b"ousel-receipt/v1\n" + body)).encode()
    done = check(tmp_path, body[:-1] + b',"signature":"' + signature + b'"}', KEY)
    assert before in receipt
    assert done.stderr.startswith("refused: ")
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["."], ["missing", str(KEY.verifier)], [".", "key"]])
def test_the_script_says_in_one_line_what_it_cannot_use(
    tmp_path: Path, arguments: list[str]
) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("refused: an argument or the receipt is missing or malformed: ")
    assert done.stderr.count("\n") == 1


def test_the_script_takes_no_log_for_a_witness(tmp_path: Path) -> None:
    second = SigningKey("pay.example/second", bytes(32))
    done = check(tmp_path, receipt_of(movement(), cosigners=(second,)), KEY, KEY, second)
    assert "witnesses: none" in done.stdout


def test_the_script_takes_no_witness_for_the_log(tmp_path: Path) -> None:
    """Nobody who is trusted as a witness can make a log, even with a key of the log's name."""
    log, index = log_with(movement())
    forger = SigningKey(KEY.verifier.name, bytes(32))
    forged = msgspec.structs.replace(
        log.inclusion(index), checkpoint=sign_note(log.checkpoint().text, [forger])
    )
    done = check(tmp_path, encode_proof_text(forged).encode(), KEY, forger)
    assert done.stderr == "refused: the log did not sign the checkpoint\n"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["debit", "credit", "shareable", "text"])
def test_the_script_accepts_a_receipt_in_each_form(tmp_path: Path, form: str) -> None:
    moved = movement()
    if form == "text":
        log, index = log_with(moved)
        receipt = encode_proof_text(log.inclusion(index, WITNESS)).encode()
    else:
        side = "credit" if form == "credit" else "debit"
        receipt = receipt_of(
            moved, side=side, is_shareable=form == "shareable", cosigners=(WITNESS,)
        )
    done = check(tmp_path, receipt, KEY, WITNESS)
    assert done.returncode == 0, done.stderr
    assert '"amount": "25.00"' in done.stdout
    assert "witnesses: witness.example.com/w1" in done.stdout


def test_the_script_accepts_a_receipt_to_which_an_editor_added_line_ends(tmp_path: Path) -> None:
    done = check(tmp_path, receipt_of(movement()) + b"\r\n\r\n", KEY)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "entry_changes"),
    [({"note": "Dinner"}, {}), ({"balance_after": 1}, {}), ({}, {"salt": "00" * 16})],
)
def test_the_script_refuses_what_was_not_sealed(
    tmp_path: Path, changes: dict[str, object], entry_changes: dict[str, object]
) -> None:
    receipt = receipt_of(movement(), changes=changes, entry_changes=entry_changes)
    done = check(tmp_path, receipt, KEY)
    assert done.returncode == 1
    assert done.stderr.startswith("refused: ")


@pytest.mark.slow
def test_the_script_refuses_a_receipt_changed_in_any_byte(tmp_path: Path) -> None:
    """The script is loaded once, and checks a receipt for each byte."""
    receipt = receipt_of(movement(), cosigners=(WITNESS,))
    (tmp_path / "receipt").write_bytes(receipt)
    program = f"""
import runpy
script = runpy.run_path({str(SCRIPT)!r})
receipt, accepted = open("receipt", "rb").read(), []
for at, byte in enumerate(receipt):
    open("changed", "wb").write(receipt[:at] + bytes([byte ^ 1]) + receipt[at + 1:])
    try:
        script["main"]("changed", {str(KEY.verifier)!r})
        accepted.append(at)
    except (SystemExit, *script["MALFORMED"]):
        pass
assert not accepted, accepted
script["main"]("receipt", {str(KEY.verifier)!r})
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
