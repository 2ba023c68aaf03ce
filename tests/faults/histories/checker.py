"""Finds what no correct ledger could have answered.

The ledger's entries say in which order each account changed. Each answer is possible at some
versions of an account only: a balance at those with that balance, a transfer behind its own entry.
Going through an account's operations in the order of time, each must fit a version that is not
older than what an earlier operation saw, and not newer than what had been asked for by then.
"""

from collections import Counter
from collections.abc import Iterator

from tests.faults.histories.history import Entry, Group, Operation

NEVER_AFTER_SECONDS = 60.0  # a key that is not found so long after its last use is never executed
FINAL = {"paid", "canceled", "expired"}


def find_anomalies(group: Group) -> list[str]:
    """Return a sentence for each contradiction between the answers and the ledger."""
    return [
        *_effects(group),
        *_promises(group),
        *_late_effects(group),
        *(each for account in group.opening for each in _versions(group, account)),
        *_charges(group),
    ]


def _effects(group: Group) -> Iterator[str]:
    """Each transfer has one debit and one credit, and each intent one transfer at most."""
    amounts: dict[str, list[int]] = {}
    transfers: dict[str, set[str]] = {}
    for entry in _entries(group):
        amounts.setdefault(entry.transfer_id, []).append(entry.amount)
        transfers.setdefault(entry.intent, set()).add(entry.transfer_id)
    for transfer_id, pair in amounts.items():
        if len(pair) != 2 or sum(pair) != 0:
            yield f"{transfer_id} has the entries {pair}"
    for intent, ids in transfers.items():
        if len(ids) > 1:
            yield f"{intent} moved money {len(ids)} times"
    for intent in transfers.keys() - {each.intent for each in _transfers(group)}:
        yield f"{intent} moved money, and nobody had asked for it"


def _promises(group: Group) -> Iterator[str]:
    """What was answered is in the ledger; what was refused everywhere is not."""
    executed = {entry.intent: entry.transfer_id for entry in _entries(group)}
    possible = set()
    for each in _transfers(group):
        if each.outcome == "unknown" or each.result is not None:
            possible.add(each.intent)
        if each.result is not None and executed.get(each.intent) != each.result:
            yield f"{each.intent} was acknowledged as {each.result}, and the ledger lost it"
    for intent in executed.keys() - possible:
        yield f"{intent} moved money, though every answer said that nothing was written"


def _late_effects(group: Group) -> Iterator[str]:
    """A key that was not found long after its last use is never executed."""
    executed = {entry.intent for entry in _entries(group)}
    last_use: dict[str, float] = {}
    for each in _transfers(group):
        last_use[each.intent] = max(each.invoked, last_use.get(each.intent, 0.0))
    for each in group.operations:
        if (
            each.action == "lookup"
            and each.outcome == "ok"
            and each.result is None
            and each.intent in executed
            and each.invoked > last_use[each.intent] + NEVER_AFTER_SECONDS
        ):
            yield f"{each.intent} was not found past the bound, and moved money later"


def _versions(group: Group, account: str) -> Iterator[str]:
    """Fit every answer about an account to a version of it, in the order of time."""
    entries = group.entries[account]
    balances = [group.opening[account], *(entry.balance_after for entry in entries)]
    running = group.opening[account]
    for entry in entries:
        running += entry.amount
        if running != entry.balance_after or running < 0:
            yield f"{account} has {entry.balance_after} after {entry.transfer_id}, not {running}"
    asked_first = _first_invocations(group)
    asked = [asked_first.get(entry.intent, 0.0) for entry in entries]
    seen: list[tuple[float, int]] = []  # when an operation returned, and the version it saw
    for each in sorted(_about(group, account), key=lambda operation: operation.returned):
        oldest = max((version for moment, version in seen if moment < each.invoked), default=0)
        newest = next(
            (index for index, moment in enumerate(asked) if moment > each.returned), len(entries)
        )
        fitting = _fitting(each, account, entries, balances)
        version = next((each for each in fitting if oldest <= each <= newest), None)
        if version is None:
            yield (
                f"{account}: {each.action} {each.intent or ''} answered {each.result}, which was"
                f" true at versions {fitting[:5]}, not at {oldest} to {newest}"
            )
        else:
            seen.append((each.returned, version))


def _fitting(
    operation: Operation, account: str, entries: list[Entry], balances: list[int]
) -> list[int]:
    """Return the versions of the account at which this answer is right."""
    own = next(
        (index for index, each in enumerate(entries, 1) if each.intent == operation.intent),
        len(balances),
    )
    versions = range(len(balances))
    if operation.action == "balance":
        return [version for version in versions if balances[version] == operation.result]
    if operation.is_refused:
        return [
            version
            for version in versions
            if balances[version] < operation.amount and version < own
        ]
    if operation.result is None:
        return [version for version in versions if version < own]
    assert account in {operation.account, operation.recipient}
    return [version for version in versions if version >= own]


def _charges(group: Group) -> Iterator[str]:
    """A charge's final status never changes."""
    finals: dict[str, tuple[float, object]] = {}
    charges = [
        each for each in group.operations if each.action == "charge" and each.outcome == "ok"
    ]
    for each in sorted(charges, key=lambda operation: operation.returned):
        first = finals.get(each.intent)
        if first is not None and each.invoked > first[0] and each.result != first[1]:
            yield f"charge {each.intent} was {first[1]}, then {each.result}"
        if each.result in FINAL:
            finals.setdefault(each.intent, (each.returned, each.result))
    statuses = Counter((each.intent, each.result) for each in charges if each.result in FINAL)
    for intent, count in Counter(intent for intent, _ in statuses).items():
        if count > 1:
            yield f"charge {intent} had {count} final statuses"


def _entries(group: Group) -> Iterator[Entry]:
    for entries in group.entries.values():
        yield from entries


def _transfers(group: Group) -> list[Operation]:
    return [each for each in group.operations if each.action == "transfer"]


def _first_invocations(group: Group) -> dict[str, float]:
    first: dict[str, float] = {}
    for each in _transfers(group):
        first[each.intent] = min(each.invoked, first.get(each.intent, each.invoked))
    return first


def _about(group: Group, account: str) -> list[Operation]:
    """Return the answered operations that say something about an account."""
    return [
        each
        for each in group.operations
        if each.outcome == "ok"
        and each.action != "charge"
        and (each.account == account or (each.recipient == account and each.result is not None))
    ]
