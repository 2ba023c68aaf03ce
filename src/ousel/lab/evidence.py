"""What the recorded calls of a rehearsal show about the app. Without I/O."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

import msgspec

from ousel.lab.rules import CREATES, RecordedCall, RehearsalName

_FINAL_STATUSES: Final = frozenset({"paid", "canceled", "expired"})


class Evidence(msgspec.Struct, frozen=True):
    """The calls of a rehearsal so far."""

    name: RehearsalName
    calls: Sequence[RecordedCall]
    has_ended: bool

    @property
    def creations(self) -> list[RecordedCall]:
        """The requests for transfers and charges."""
        return [call for call in self.calls if call.operation in CREATES]

    @property
    def attempts_by_intent(self) -> list[list[RecordedCall]]:
        """The requests for each transfer or charge, in their order."""
        attempts: dict[tuple[str, str | None], list[RecordedCall]] = {}
        for call in self.creations:
            attempts.setdefault((call.operation, call.intent), []).append(call)
        return list(attempts.values())


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


def is_same_intent(call: RecordedCall, other: RecordedCall) -> bool:
    """Return whether two calls ask for the same transfer or charge."""
    return (call.operation, call.intent) == (other.operation, other.intent)


def was_unresolved_at(earlier: RecordedCall, call: RecordedCall) -> bool:
    """Return whether the earlier call had failed, without a known outcome, when this one came."""
    failed_at = earlier.answered_at
    return failed_at is not None and failed_at <= call.arrived_at and is_unresolved(earlier)


def is_final(call: RecordedCall) -> bool:
    """Return whether the same call can only get the same answer again."""
    if call.answered_at is None or call.status is None or call.retry_after is not None:
        return False
    is_refused = (
        HTTPStatus.BAD_REQUEST <= call.status < HTTPStatus.INTERNAL_SERVER_ERROR
        and call.status != HTTPStatus.TOO_MANY_REQUESTS
    )
    return is_refused or shows_outcome(call)


def shows_outcome(call: RecordedCall) -> bool:
    """Return whether the answer says what became of a charge."""
    return call.operation == "getCharge" and call.charge_status in _FINAL_STATUSES


def question(call: RecordedCall) -> tuple[str | None, ...]:
    """Return all that a call asks for; a call that repeats another one asks the same question."""
    return (call.operation, call.path, call.credential, call.key, call.intent, call.cursor)
