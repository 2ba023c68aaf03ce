"""The checkers of histories find what is wrong, and nothing where nothing is."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.histories.checker import NEVER_AFTER_SECONDS, find_anomalies
from tests.faults.histories.correct_ledger import CorrectLedger
from tests.faults.histories.history import Entry, Group, Operation, save
from tests.faults.histories.porcupine import go, porcupine_verdicts
from tests.faults.sizes import FULL


def operation(moment: float, **fields: object) -> Operation:
    """An operation of the account left that took a second."""
    given_fields = {"group": 0, "account": "left", "outcome": "ok"} | fields
    return Operation(invoked=moment, returned=moment + 1, **given_fields)  # type: ignore[arg-type]


def transfer(moment: float, **fields: object) -> Operation:
    """A transfer of 30 from left to right."""
    return operation(
        moment,
        **{"action": "transfer", "recipient": "right", "intent": "one", "amount": 30} | fields,
    )


def group(*operations: Operation, transfers: tuple[str, ...] = ("tr_1",)) -> Group:
    """A history at whose end these transfers of 30 from left to right are in the ledger."""
    steps = list(enumerate(transfers, 1))
    return Group(
        number=0,
        operations=list(operations),
        opening={"left": 100, "right": 0},
        entries={
            "left": [Entry(name, "one", -30, 100 - 30 * count) for count, name in steps],
            "right": [Entry(name, "one", 30, 30 * count) for count, name in steps],
        },
    )


SENT = transfer(0, result="tr_1")
ANOMALIES: dict[str, tuple[Group, str]] = {
    "a stale read": (
        group(SENT, operation(5, action="balance", result=100)),
        "balance  answered 100",
    ),
    "a read of the future": (
        group(operation(0, action="balance", result=70), transfer(5, result="tr_1")),
        "not at 0 to 0",
    ),
    "a balance that never existed": (
        group(SENT, operation(5, action="balance", result=55)),
        "true at versions []",
    ),
    "reads that go back": (
        group(
            transfer(0, outcome="unknown"),
            operation(2, action="balance", result=70),
            operation(4, action="balance", result=100),
        ),
        "not at 1 to 1",
    ),
    "a lost update": (group(SENT, transfers=()), "the ledger lost it"),
    "a refusal without a reason": (
        group(transfer(0), transfers=()),
        "answered None, which was true at versions []",
    ),
    "a key that is not found after its transfer": (
        group(SENT, operation(5, action="lookup", intent="one")),
        "lookup one answered None",
    ),
}
ONLY_IN_THE_LEDGER: dict[str, tuple[Group, str]] = {
    "a double effect": (group(SENT, transfers=("tr_1", "tr_2")), "moved money 2 times"),
    "one id twice": (group(SENT, transfers=("tr_1", "tr_1")), "tr_1 has the entries"),
    "a refused transfer that moved": (
        group(transfer(0, outcome="fail")),
        "every answer said that nothing was written",
    ),
    "an effect nobody asked for": (group(), "nobody had asked"),
    "an effect past the bound": (
        group(
            transfer(0, outcome="unknown"),
            operation(NEVER_AFTER_SECONDS + 5, action="lookup", intent="one"),
        ),
        "not found past the bound",
    ),
    "a final status that changes": (
        group(
            SENT,
            operation(0, action="charge", intent="ch_1", result="paid"),
            operation(5, action="charge", intent="ch_1", result="expired"),
        ),
        "charge ch_1 was paid, then expired",
    ),
}


@pytest.mark.parametrize("name", ANOMALIES | ONLY_IN_THE_LEDGER)
def test_an_anomaly_is_found(name: str) -> None:
    """Each kind of wrong answer is reported in words that name it."""
    history, words = (ANOMALIES | ONLY_IN_THE_LEDGER)[name]

    assert any(words in each for each in find_anomalies(history)), find_anomalies(history)


@given(seed=st.integers(min_value=0), length=st.integers(0, 60))
def test_a_correct_ledger_has_no_anomaly(seed: int, length: int) -> None:
    """Whatever answers are lost, refused or retried, nothing is reported."""
    assert find_anomalies(CorrectLedger(seed).history(length)) == []


def spoilt_balance(history: Group) -> Group:
    """Return the history with a last balance that never existed."""
    operations = list(history.operations)
    for index in reversed(range(len(operations))):
        if operations[index].action == "balance":
            result = int(operations[index].result or 0) + 1_000_000
            operations[index] = msgspec.structs.replace(operations[index], result=result)
            break
    return msgspec.structs.replace(history, operations=operations)


@pytest.mark.slow
@pytest.mark.skipif(not FULL or go() is None, reason="it needs Go and time: make faults")
def test_porcupine_agrees(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """Porcupine accepts correct histories, and refuses spoilt ones and each planted anomaly."""
    correct = [CorrectLedger(seed).history(40) for seed in range(50)]
    wrong = [spoilt_balance(CorrectLedger(seed).history(40)) for seed in range(50)]
    planted = [history for name, (history, _) in ANOMALIES.items() if name != "a lost update"]
    numbered = [
        msgspec.structs.replace(history, number=number)
        for number, history in enumerate([*correct, *wrong, *planted])
    ]
    save(numbered, tmp_path / "histories")

    verdicts = porcupine_verdicts(tmp_path / "histories")

    expected = {each.number: "Illegal" if find_anomalies(each) else "Ok" for each in numbered}
    assert verdicts == expected
    assert list(expected.values()).count("Ok") == len(correct)
    record_property("figure", f"histories: Porcupine agrees on {len(numbered)} histories")
