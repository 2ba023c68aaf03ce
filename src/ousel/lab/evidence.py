"""What the recorded calls of a rehearsal show about the app. Without I/O."""

from collections.abc import Sequence
from http import HTTPStatus
from itertools import pairwise
from typing import Final

import msgspec

from ousel.kernel.clock import MICROS_PER_SECOND
from ousel.lab.rules import (
    CREATES,
    DISTURBING,
    FINAL_STATUSES,
    RecordedCall,
    RehearsalName,
    is_disturbed,
    is_lookup,
    is_page,
    is_refused,
)

# If a key is not found so long after its last use, no attempt with it will ever move money.
LOOKUP_MICROS: Final = 60 * MICROS_PER_SECOND

Attempts = list[RecordedCall]  # of one transfer or charge, with the look-ups of their keys


class Evidence(msgspec.Struct, frozen=True):
    """The calls of a rehearsal so far."""

    name: RehearsalName
    calls: Sequence[RecordedCall]
    has_ended: bool

    @property
    def was_rehearsed(self) -> bool:
        """Whether a call went wrong as planned, in a rehearsal that makes calls go wrong."""
        return self.name not in DISTURBING or any(is_disturbed(call) for call in self.calls)

    @property
    def creations(self) -> list[RecordedCall]:
        """The requests for transfers and charges."""
        return _creations(self.calls)

    @property
    def attempts(self) -> list[Attempts]:
        """The attempts at each transfer or charge, in their order."""
        found: list[Attempts] = []
        for call in self.calls:
            if call.operation not in CREATES and not is_lookup(call):
                continue
            repeated = _find_repeated(call, found)
            if repeated is not None:
                repeated.append(call)
            elif call.operation in CREATES:
                found.append([call])
        return found

    @property
    def pages(self) -> list[RecordedCall]:
        """The pages of the lists that the rehearsal page-shifts disturbs."""
        return [call for call in self.calls if self.name == "page-shifts" and is_page(call)]

    def cursors_before(self, page: RecordedCall) -> set[str | None]:
        """Return the cursors that the client had got before it asked for this page."""
        return {call.next_cursor for call in self.calls if is_after(page, call)}


def _find_repeated(call: RecordedCall, found: Sequence[Attempts]) -> Attempts | None:
    """Return the attempts that a call repeats: those with its key.

    If its key is new, it repeats an equal request whose outcome is not known.
    """
    with_key = [each for each in found if any(_has_same_key(call, other) for other in each)]
    with_intent = [each for each in found if _is_same_intent(call, each[0])]
    still_open = [each for each in with_intent if _was_open_at(each, call)]
    return next(iter(with_key + still_open), None)


def _has_same_key(call: RecordedCall, other: RecordedCall) -> bool:
    """Return whether two calls use one key; those of transfers and of charges are separate."""
    are_charges = [each.operation == "createCharge" for each in (call, other)]
    return call.key is not None and call.key == other.key and are_charges[0] == are_charges[1]


def _is_same_intent(call: RecordedCall, other: RecordedCall) -> bool:
    """Return whether two calls ask for an equal transfer or charge."""
    return (call.operation, call.intent) == (other.operation, other.intent)


def _was_open_at(attempts: Attempts, call: RecordedCall) -> bool:
    """Return whether the client did not know the outcome of these attempts when this call came."""
    last = _creations(attempts)[-1]
    is_known = any(shows_outcome(each, last) for each in attempts)
    return was_unresolved_at(last, call) and not is_known


def shows_outcome(call: RecordedCall, attempt: RecordedCall) -> bool:
    """Return whether the answer to a call with the same key shows what became of the attempt.

    It is the answer to another request with this key, or it comes from looking the key up.
    """
    if call.key != attempt.key or call.answered_at is None:
        return False
    if not is_lookup(call):
        return call.answered_at >= attempt.arrived_at and not is_unresolved(call)
    is_late = call.arrived_at >= attempt.arrived_at + LOOKUP_MICROS
    found = call.status == HTTPStatus.OK and (is_late or not call.found_nothing)
    return found and is_after(call, attempt)


def _creations(calls: Sequence[RecordedCall]) -> list[RecordedCall]:
    return [call for call in calls if call.operation in CREATES]


def retries(attempts: Attempts) -> list[tuple[RecordedCall, RecordedCall]]:
    """Return each request that had failed when the next one came, together with the next one."""
    pairs = pairwise(_creations(attempts))
    return [(earlier, later) for earlier, later in pairs if was_unresolved_at(earlier, later)]


def is_unresolved(call: RecordedCall) -> bool:
    """Return whether the client cannot know the outcome, or was told to try again."""
    return (
        call.status is None
        or call.status == HTTPStatus.TOO_MANY_REQUESTS
        or call.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    )


def is_after(call: RecordedCall, earlier: RecordedCall) -> bool:
    """Return whether a call arrived after another one."""
    return call.sequence > earlier.sequence


def was_unresolved_at(earlier: RecordedCall, call: RecordedCall) -> bool:
    """Return whether the earlier call had failed, without a known outcome, when this one came."""
    failed_at = earlier.answered_at
    return failed_at is not None and failed_at <= call.arrived_at and is_unresolved(earlier)


def is_final(call: RecordedCall) -> bool:
    """Return whether the same call can only get the same answer again."""
    if call.answered_at is None or call.retry_after is not None:
        return False
    return is_refused(call) or (
        call.operation == "getCharge" and call.charge_status in FINAL_STATUSES
    )


def question(call: RecordedCall) -> tuple[str | None, ...]:
    """Return all that a call asks for; a call that repeats another one asks the same question."""
    return (call.operation, call.path, call.credential, call.key, call.intent, call.cursor)
