"""`ousel receipt check`: it needs neither a database nor the network."""

from pathlib import Path

import msgspec
import pytest

from ousel.sealed_log.notes import COSIGNATURE, Signature, SigningKey
from ousel.sealed_log.receipt_check import check_receipt
from ousel.sealed_log.receipt_sentences import proven_sentences
from tests.cli.commands import assert_fails, ousel
from tests.sealed_log.examples import KEY, movement, receipt_of

pytestmark = pytest.mark.one_engine

NOWHERE = "sqlite:////nowhere/at/all.db"


@pytest.fixture
def receipt(tmp_path: Path) -> Path:
    """The file of a receipt."""
    file = tmp_path / "receipt.json"
    file.write_bytes(receipt_of(movement()))
    return file


def test_a_receipt_is_explained_in_words(receipt: Path) -> None:
    """The command says what is proven, what only the operator says, and what is not proven."""
    done = ousel("receipt", "check", str(receipt), f"--key={KEY.verifier}", database=NOWHERE)
    assert done.exit_code == 0
    proven, others = done.output.split("Stated by the operator, not proven by the log:")
    names, not_proven = others.split("Not proven:")
    assert "25.00 OUSD moved from account acct_a to account acct_b" in proven
    assert "the balance after it was 75.00 OUSD" in proven
    assert "Account acct_b is @bob" in names
    assert "no witness" in not_proven


def test_a_receipt_as_json(receipt: Path) -> None:
    record = ousel(
        "receipt", "check", str(receipt), f"--key={KEY.verifier}", "--json", database=NOWHERE
    ).json
    assert record["movement"]["amount"] == "25.00"
    assert record["entry"]["balance_after"] == 75
    assert record["witnesses"] == []
    assert record["proven"]
    assert len(record["signed_names"]) == 2
    assert record["not_proven"]


def test_a_note_cannot_add_sentences_or_control_the_terminal(tmp_path: Path) -> None:
    """Whoever sends money writes the note, and somebody else reads what the command prints."""
    file = tmp_path / "receipt.json"
    file.write_bytes(receipt_of(movement(note="x”.\n- 9000.00 OUSD moved\x9b2K")))
    done = ousel("receipt", "check", str(file), f"--key={KEY.verifier}", database=NOWHERE)
    proven = done.output.partition("Proven:")[2].partition("Stated by the operator")[0]
    assert proven.count("\n- ") == 3
    assert r"“x”.\n- 9000.00 OUSD moved\x9b2K”" in proven
    assert "\x9b" not in done.output


def test_the_key_of_a_log_is_no_witness(receipt: Path) -> None:
    """Otherwise the log's own signature would count as that of somebody else."""
    keys = (f"--key={KEY.verifier}", f"--witness={KEY.verifier}")
    for command in (("receipt", "check", str(receipt)), ("log", "audit", "http://127.0.0.1:1")):
        assert_fails(ousel(*command, *keys, database=NOWHERE), "the key of a log, not of a witness")


def test_the_key_of_a_witness_is_no_log(receipt: Path) -> None:
    """The message names the mistake, instead of saying that the receipt was changed."""
    key = SigningKey(KEY.verifier.name, bytes(32), COSIGNATURE).verifier
    for command in (("receipt", "check", str(receipt)), ("log", "audit", "http://127.0.0.1:1")):
        done = ousel(*command, f"--key={key}", database=NOWHERE)
        assert_fails(done, "the key of a witness, not of a log")


def test_a_witness_with_a_wrong_clock_is_quoted(receipt: Path) -> None:
    """A time that is no date does not make the receipt unreadable."""
    checked = check_receipt(receipt.read_bytes(), [KEY.verifier], [])
    cosigned = msgspec.structs.replace(checked, cosignatures=[Signature(KEY.verifier, 10**15)])
    assert "at second 1000000000000000 of Unix time" in proven_sentences(cosigned)[-1]


def test_a_changed_receipt_is_refused(receipt: Path) -> None:
    receipt.write_bytes(receipt.read_bytes().replace(b"Lunch", b"Launch"))
    done = ousel("receipt", "check", str(receipt), f"--key={KEY.verifier}", database=NOWHERE)
    assert_fails(done, f"{receipt}: the receipt was changed, or it was signed with another key")


def test_a_malformed_key_is_refused(receipt: Path) -> None:
    done = ousel("receipt", "check", str(receipt), "--key=nothing", database=NOWHERE)
    assert_fails(done, "the key is not in the form <name>+<id>+<Ed25519 key in Base64>")
