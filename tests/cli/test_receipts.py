"""`ousel receipt check`: it needs neither a database nor the network."""

from pathlib import Path

import pytest

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


def test_a_changed_receipt_is_refused(receipt: Path) -> None:
    receipt.write_bytes(receipt.read_bytes().replace(b"Lunch", b"Launch"))
    done = ousel("receipt", "check", str(receipt), f"--key={KEY.verifier}", database=NOWHERE)
    assert_fails(done, f"{receipt}: the receipt was changed, or it was signed with another key")


def test_a_malformed_key_is_refused(receipt: Path) -> None:
    done = ousel("receipt", "check", str(receipt), "--key=nothing", database=NOWHERE)
    assert_fails(done, "the key is not in the form <name>+<id>+<Ed25519 key in Base64>")
