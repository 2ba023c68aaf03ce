"""What happened to each recorded call, and what a good client does next. Without I/O."""

from http import HTTPStatus
from typing import Final

from ousel.lab.rules import (
    CREATES,
    FINAL_STATUSES,
    OPEN_RETURN,
    Event,
    RecordedCall,
    is_disturbed,
)

_EVENTS: Final[dict[Event, str]] = {
    "answered-at-once": "answered at once, without waiting",
    "paid": "the charge was paid before this answer",
    "expired": "the charge expired before this answer",
    "closed-already": "the charge was closed already",
    "shortened": "the page was shortened",
    "shifted": "another transfer arrived before this page, which was shortened",
}

_AGAIN: Final = "send the same request again, with the same idempotency key if it had one."


def what_happened(call: RecordedCall) -> str:
    """Return in a few words how a call was answered and what the lab did."""
    if call.operation == OPEN_RETURN:
        return "returned to your redirect URI with a wrong state"
    answer = _without_answer(call) if call.status is None else _answer_in_words(call)
    return answer if call.event is None else f"{answer}; {_EVENTS[call.event]}"


def _answer_in_words(call: RecordedCall) -> str:
    answer = f"{call.status}" if call.code is None else f"{call.status} {call.code}"
    if call.retry_after is not None:
        answer += f", Retry-After: {call.retry_after}"
    if call.charge_status is not None:
        answer += f", charge {call.charge_status}"
    if (call.disturbance or "").startswith("slow") and is_disturbed(call):
        answer += ", sent late"
    return answer


def _without_answer(call: RecordedCall) -> str:
    if call.answered_at is None:
        return "no answer so far"
    if call.disturbance == "drop-after-commit":
        outcome = "carried out" if call.code is None else f"refused with {call.code}"
        return f"{outcome}, and the answer was lost"
    if call.disturbance == "drop-before-commit":
        return "lost before anything was written"
    return "no answer: the connection was closed"


def next_step(call: RecordedCall) -> str:
    """Return what a good client does after this call."""
    if call.operation == OPEN_RETURN:
        return "Compare the state with the one that you sent, and do not exchange the code."
    if call.status is None:
        return _after_no_answer(call)
    if call.status >= HTTPStatus.BAD_REQUEST:
        return _after_refusal(call, call.status)
    return _after_success(call)


def _after_no_answer(call: RecordedCall) -> str:
    if call.operation in CREATES:
        return "Send the same request again, with the same key: it takes effect only once."
    return "Send the same request again."


def _after_refusal(call: RecordedCall, status: int) -> str:
    if call.retry_after is not None:
        return f"Wait at least {call.retry_after} s, then {_AGAIN}"
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return f"Wait, longer after each failure, then {_AGAIN}"
    if status == HTTPStatus.UNAUTHORIZED:
        return "Stop using this key or token: issue a new key, or connect the person again."
    return "Correct the cause; do not send the same request again."


def _after_success(call: RecordedCall) -> str:
    if call.operation == "getCharge":
        if call.charge_status in FINAL_STATUSES:
            return "Stop asking: this status never changes."
        return "Ask again later, or with Prefer: wait."
    if call.has_more:
        return "Ask for the next page with the next_cursor of this one."
    if call.operation in CREATES:
        return "Store the id of the transfer or charge with your own record of what it is for."
    return "Nothing."
