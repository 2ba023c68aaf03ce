"""The verdict of both checkers on recorded histories."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.faults.histories.checker import find_anomalies
from tests.faults.histories.history import Group, Operation, save
from tests.faults.histories.porcupine import go, porcupine_verdicts
from tests.faults.sizes import FULL

UNKNOWN_MAX = 12


def assert_correct(histories: Sequence[Group], folder: Path) -> str:
    """Check that no history has an anomaly, and that each has one once a read in it is stale.

    In full size Porcupine checks the same, where Go is installed. Return who has checked.
    """
    stale = [
        msgspec.structs.replace(
            each,
            number=len(histories) + each.number,
            operations=[*each.operations, read],
        )
        for each in histories
        if (read := stale_read(each)) is not None
    ]
    assert stale, "no transfer was acknowledged"
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


def stale_read(history: Group) -> Operation | None:
    """Return a last read of an account that lacks an acknowledged transfer.

    A transfer of unknown outcome may have taken effect before or after the read. Return None if
    such transfers could explain every earlier balance, or if they are too many to try.
    """
    acknowledged = {
        each.intent
        for each in history.operations
        if each.action == "transfer" and each.outcome == "ok" and each.result is not None
    }
    last = max((each.returned for each in history.operations), default=0.0)
    for account, entries in history.entries.items():
        opening = history.opening[account]
        certain = sum(each.amount for each in entries if each.intent in acknowledged)
        unknown = [each.amount for each in entries if each.intent not in acknowledged]
        possible = {opening + certain}
        for amount in unknown[:UNKNOWN_MAX]:
            possible |= {balance + amount for balance in possible}
        earlier = {opening, *(each.balance_after for each in entries)} - possible
        if earlier and len(unknown) <= UNKNOWN_MAX:
            return Operation(
                group=history.number,
                action="balance",
                account=account,
                invoked=last + 1,
                returned=last + 2,
                outcome="ok",
                result=max(earlier),
            )
    return None
