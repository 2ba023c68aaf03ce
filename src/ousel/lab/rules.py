"""Rehearsals: which calls each one disturbs, and what is recorded of a call. Without I/O."""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final, Literal

import msgspec

CALLS_MAX: Final = 200  # of one rehearsal; after the last one, the rehearsal has ended
SECONDS_MAX: Final = 15 * 60  # how long a rehearsal lasts, unless it is finished earlier
REHEARSALS_MAX: Final = 20  # of one account; the oldest are deleted
PAGE_RECORDS: Final = 2  # how many transfers a page has in the rehearsal page-shifts
PAGES_SHIFTED: Final = 2  # of one list; each adds a transfer, so the list must not grow for ever

RehearsalName = Literal[
    "answer-lost-after-commit",
    "answer-lost-before-commit",
    "unavailable",
    "unavailable-retry-after",
    "rate-limited",
    "slow",
    "key-revoked",
    "token-expired",
    "paid-in-last-second",
    "charge-expires",
    "page-shifts",
    "forged-return",
]
Rule = Literal[
    "key_sent",
    "same_key_on_retry",
    "no_new_key_for_old_intent",
    "backed_off",
    "honoured_retry_after",
    "exact_amounts",
    "stopped_when_final",
    "asked_for_outcome",
    "followed_cursor",
    "checked_state",
    "kept_secret_on_server",
]
# What the lab does before a call is answered. A disturbance makes the call itself go wrong.
Event = Literal["answered-at-once", "paid", "expired", "closed-already", "shortened", "shifted"]

CREATES: Final = frozenset({"createTransfer", "createCharge"})
OPEN_RETURN: Final = "openForgedReturn"  # somebody opened the forged return; not an operation
FINAL_STATUSES: Final = frozenset({"paid", "canceled", "expired"})  # of a charge

_ID: Final = re.compile(r"reh_[0-9a-v]{26}", re.ASCII)
_RETRY_RULES: Final[tuple[Rule, ...]] = (
    "key_sent",
    "same_key_on_retry",
    "no_new_key_for_old_intent",
)


class Rehearsal(msgspec.Struct, frozen=True):
    """A rehearsal of one app; the fields are in the order of the table's columns."""

    account_id: str
    id: str
    app_id: str
    name: RehearsalName
    started_at: int
    ends_at: int
    calls: int = 0  # how many were recorded
    code_hash: str | None = None  # of the code in the forged return, once somebody opened it

    def is_running_at(self, now: int) -> bool:
        """Return whether calls are still disturbed and recorded."""
        return now < self.ends_at and self.calls < CALLS_MAX


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call of the app, without any secret: keys are recorded as hashes or handles."""

    sequence: int
    operation: str
    method: str
    path: str
    arrived_at: int
    credential: str | None = None  # the handle of the partner key or user token
    key: str | None = None  # a hash of the idempotency key
    intent: str | None = None  # a hash of what is to be created, or of what is asked for
    amount: str | None = None  # as written in the body
    cursor: str | None = None
    limit: str | None = None
    is_oldest_first: bool = False  # a list that new records do not shift
    status_filter: str | None = None  # a list of charges that have this status
    from_browser: bool = False
    is_forged: bool = False  # it exchanges the code of the forged return
    disturbance: str | None = None  # a value of Ousel-Rehearse
    event: Event | None = None
    answered_at: int | None = None  # when the answer was sent or dropped
    status: int | None = None  # None if there was no answer
    code: str | None = None
    retry_after: int | None = None
    charge_id: str | None = None  # created or asked for, or the one that the event is about
    charge_status: str | None = None
    closed_charges: tuple[str, ...] = ()  # created in this rehearsal; the answer says: it is final
    found_nothing: bool = False  # a list without records
    next_cursor: str | None = None
    has_more: bool = False


class Plan(msgspec.Struct, frozen=True):
    """The disturbance of a call, and the event that accompanies the call."""

    disturbance: str | None = None
    event: Event | None = None
    charge_id: str | None = None  # the charge that the event is about


class Description(msgspec.Struct, frozen=True):
    """What a partner reads before choosing a rehearsal."""

    title: str
    happens: str
    task: str
    rules: tuple[Rule, ...]  # those that the rehearsal is about


_SEND: Final = "Let your software send a transfer or create a charge."
_WAIT: Final = "Let your software create a charge and wait for its outcome."

DESCRIPTIONS: Final[dict[RehearsalName, Description]] = {
    "answer-lost-after-commit": Description(
        "Answers lost after the commit",
        "The first two requests for a transfer or charge are carried out, but not answered.",
        _SEND,
        _RETRY_RULES,
    ),
    "answer-lost-before-commit": Description(
        "Answers lost before the commit",
        "The first two requests for a transfer or a charge are lost, and nothing is written.",
        _SEND,
        _RETRY_RULES,
    ),
    "unavailable": Description(
        "503 without Retry-After",
        "The first five requests for a transfer or a charge get a 503.",
        _SEND,
        (*_RETRY_RULES, "backed_off"),
    ),
    "unavailable-retry-after": Description(
        "503 with Retry-After",
        "The first two requests for a transfer or a charge get a 503 with Retry-After: 2.",
        _SEND,
        (*_RETRY_RULES, "honoured_retry_after"),
    ),
    "rate-limited": Description(
        "429",
        "The first two requests for a transfer or a charge get a 429 with Retry-After: 1.",
        _SEND,
        (*_RETRY_RULES, "honoured_retry_after"),
    ),
    "slow": Description(
        "A slow answer",
        "The first transfer or charge is written, but its answer comes five seconds later.",
        _SEND,
        ("key_sent",),
    ),
    "key-revoked": Description(
        "A key revoked in the middle",
        "After the first call, the key that your software uses is refused with a 401.",
        "Let your software make two calls or more.",
        ("stopped_when_final",),
    ),
    "token-expired": Description(
        "A user token expired",
        "After the first call with a user token, this token is refused with a 401.",
        "Let your software read a connected account twice.",
        ("stopped_when_final",),
    ),
    "paid-in-last-second": Description(
        "A charge paid in its last second",
        "The first read of the charge is answered at once. Before the second one is "
        "answered, the sandbox's clock moves on, and the charge is paid just before it expires.",
        _WAIT,
        ("asked_for_outcome",),
    ),
    "charge-expires": Description(
        "A charge that expires",
        "The first read of the charge is answered at once. Before the second one is "
        "answered, the sandbox's clock moves on, and the charge expires.",
        _WAIT,
        ("asked_for_outcome",),
    ),
    "page-shifts": Description(
        "A list that grows while it is read",
        f"The first three pages of a list of transfers have at most {PAGE_RECORDS} records, and "
        "another transfer of 0.01 arrives before the second and the third.",
        "Let your software read the list of all its transfers to the end. There must be at least "
        "three.",
        ("followed_cursor",),
    ),
    "forged-return": Description(
        "A return with a wrong state",
        "Somebody returns to your redirect URI with a code that is not valid, and a state that you"
        " never sent.",
        "Open the link of the forged return. It leads to the first redirect URI of your app.",
        ("checked_state",),
    ),
}

# How many of the first requests for a transfer or a charge are disturbed, and how.
_DISTURBANCES: Final[dict[RehearsalName, tuple[int, str]]] = {
    "answer-lost-after-commit": (2, "drop-after-commit"),
    "answer-lost-before-commit": (2, "drop-before-commit"),
    "unavailable": (5, "unavailable"),
    "unavailable-retry-after": (2, "unavailable; retry-after=2"),
    "rate-limited": (2, "rate-limited"),
    "slow": (1, "slow; seconds=5"),
}
_REVOKED_PREFIXES: Final[dict[RehearsalName, str]] = {"key-revoked": "sk_", "token-expired": "ut_"}
DISTURBING: Final = frozenset({*_DISTURBANCES, *_REVOKED_PREFIXES})


def is_rehearsal_id(text: str) -> bool:
    """Return whether a text has the form of a rehearsal's id."""
    return _ID.fullmatch(text) is not None


def plan_call(name: RehearsalName, call: RecordedCall, earlier: Sequence[RecordedCall]) -> Plan:
    """Return what the rehearsal does with a call, given the calls before it."""
    if name in _DISTURBANCES:
        first, disturbance = _DISTURBANCES[name]
        disturbed = sum(is_disturbed(each) for each in earlier)
        disturbs = call.operation in CREATES and disturbed < first
        return Plan(disturbance=disturbance if disturbs else None)
    if name in _REVOKED_PREFIXES:
        return _plan_revocation(_REVOKED_PREFIXES[name], call, earlier)
    if name == "page-shifts" and is_page(call):
        return Plan(event=_page_event(call, earlier))
    if name in ("paid-in-last-second", "charge-expires"):
        return _plan_outcome("paid" if name == "paid-in-last-second" else "expired", call, earlier)
    return Plan()


def _plan_revocation(prefix: str, call: RecordedCall, earlier: Sequence[RecordedCall]) -> Plan:
    """Refuse all calls with the credential that was used first, except the first one."""
    used = [each.credential for each in earlier if (each.credential or "").startswith(prefix)]
    return Plan(disturbance="key-revoked" if call.credential in used[:1] else None)


def _page_event(call: RecordedCall, earlier: Sequence[RecordedCall]) -> Event | None:
    """Shorten the first pages of each list, and let a transfer arrive before those that follow."""
    if call.cursor is None:
        return "shortened"
    shifted = sum(each.event == "shifted" and each.intent == call.intent for each in earlier)
    return "shifted" if shifted < PAGES_SHIFTED else None


def _plan_outcome(outcome: Event, call: RecordedCall, earlier: Sequence[RecordedCall]) -> Plan:
    """Answer the first read of a charge at once; close the charge at the second one."""
    charge_id = _charge_in_question(outcome, call, created_charges(earlier))
    if charge_id is None:
        return Plan()
    if not any(each.event and each.charge_id == charge_id for each in earlier):
        return Plan(event="answered-at-once", charge_id=charge_id)
    if any(each.event == outcome for each in earlier):
        return Plan()
    return Plan(event=outcome, charge_id=charge_id)


def _charge_in_question(outcome: Event, call: RecordedCall, created: Sequence[str]) -> str | None:
    """Return the charge whose outcome a client can learn from this call, if there is one."""
    newest = created[-1] if created else None
    match call.operation:
        case "getCharge":
            return call.charge_id if call.charge_id in created else None
        case "listCharges":
            return newest if call.status_filter in (None, outcome) else None
        case "listTransfers":
            return newest if outcome == "paid" and not is_lookup(call) else None
        case _:
            return None


def created_charges(calls: Sequence[RecordedCall]) -> list[str]:
    """Return the ids of the charges that were created, in the order of the calls."""
    return [
        each.charge_id
        for each in calls
        if each.operation == "createCharge" and each.charge_id and each.charge_status == "created"
    ]


def is_refused(call: RecordedCall) -> bool:
    """Return whether the call has a fault of its own, so that a retry would be refused as well."""
    return (
        call.status is not None
        and HTTPStatus.BAD_REQUEST <= call.status < HTTPStatus.INTERNAL_SERVER_ERROR
        and call.status != HTTPStatus.TOO_MANY_REQUESTS
    )


def is_disturbed(call: RecordedCall) -> bool:
    """Return whether the call went wrong as planned; one with a fault of its own did not."""
    if call.disturbance == "key-revoked":
        return call.status == HTTPStatus.UNAUTHORIZED
    return call.disturbance is not None and not is_refused(call)


def is_lookup(call: RecordedCall) -> bool:
    """Return whether the call asks what became of an idempotency key."""
    return call.operation == "listTransfers" and call.key is not None


def is_page(call: RecordedCall) -> bool:
    """Return whether the call reads a list that new transfers shift.

    With the limit 1, a client looks at the newest transfer only.
    """
    is_list = call.operation == "listTransfers" and not is_lookup(call)
    return is_list and not call.is_oldest_first and call.limit != "1"
