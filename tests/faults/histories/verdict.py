"""The verdict of both checkers on recorded histories."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.faults.histories.checker import find_anomalies
from tests.faults.histories.history import Group, Operation, save
from tests.faults.histories.porcupine import go, porcupine_verdicts
from tests.faults.sizes import FULL


def assert_correct(histories: Sequence[Group], folder: Path) -> str:
    """Check that no history has an anomaly, and that each has one once a read in it is stale.

    In full size Porcupine checks the same, where Go is installed. Return who has checked.
    """
    stale = [
        msgspec.structs.replace(with_stale_read(each), number=len(histories) + each.number)
        for each in histories
        if all(each.entries.values())
    ]
    path = folder / "histories"
    save([*histories, *stale], path)
    for history in histories:
        anomalies = find_anomalies(history)
        assert anomalies == [], f"group {history.number} in {path}: {anomalies}"
    for history in stale:
        assert find_anomalies(history) != [], f"group {history.number} in {path}"
    if not FULL or go() is None:
        return "no anomaly found; Porcupine did not check"
    verdicts = porcupine_verdicts(path)
    assert {verdicts[each.number] for each in histories} == {"Ok"}, path
    assert {verdicts[each.number] for each in stale} == {"Illegal"}, path
    return "no anomaly found, and Porcupine agrees"


def with_stale_read(history: Group) -> Group:
    """Return the history with a last read of each account that answers an earlier balance."""
    last = max(each.returned for each in history.operations)
    reads = [
        Operation(
            group=history.number,
            action="balance",
            account=account,
            invoked=last + 1,
            returned=last + 2,
            outcome="ok",
            result=entries[-1].balance_after - entries[-1].amount,
        )
        for account, entries in history.entries.items()
    ]
    return msgspec.structs.replace(history, operations=[*history.operations, *reads])
