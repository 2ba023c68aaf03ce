"""What happened to each recorded call, and what a good client does next. Without I/O."""

from http import HTTPStatus
from typing import Final

from ousel.lab.rules import CREATES, OPEN_RETURN, Event, RecordedCall

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
    if call.status is not None:
        answer = f"{call.status}" if call.code is None else f"{call.status} {call.code}"
        if call.retry_after is not None:
            answer += f", Retry-After: {call.retry_after}"
        if call.charge_status is not None:
            answer += f", charge {call.charge_status}"
    elif call.disturbance == "drop-after-commit":
        answer = "carried out, and the answer was lost"
    elif call.disturbance == "drop-before-commit":
        answer = "lost before anything was written"
    else:
        answer = "no answer: your software hung up, or the call is still running"
    if call.disturbance is not None and call.disturbance.startswith("slow") and call.status:
        answer += ", sent late"
    return answer if call.event is None else f"{answer}; {_EVENTS[call.event]}"


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
        if call.charge_status == "created":
            return "Ask again later, or with Prefer: wait."
        return "Stop asking: this status never changes."
    if call.has_more:
        return "Ask for the next page with the next_cursor of this one."
    if call.operation in CREATES:
        return "Store the id of the transfer or charge with your own record of what it is for."
    return "Nothing."
