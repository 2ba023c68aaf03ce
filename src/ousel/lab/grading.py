"""Grading: from the recorded calls of a rehearsal to a verdict on each rule. Without I/O."""

import re
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import Final, Literal

import msgspec

from ousel.kernel.clock import MICROS_PER_SECOND
from ousel.lab.evidence import (
    Attempts,
    Evidence,
    is_after,
    is_final,
    is_unresolved,
    question,
    retries,
    shows_outcome,
)
from ousel.lab.rules import (
    CALLS_MAX,
    CREATES,
    DESCRIPTIONS,
    OPEN_RETURN,
    RecordedCall,
    RehearsalName,
    Rule,
    created_charges,
)

# How often the same question may be asked again after a final answer: a person may reload a page.
REPEATS_MAX: Final = 2
PAUSES_MIN: Final = 5  # fewer pauses say nothing about backoff, because each may be random
TOLERANCE_MICROS: Final = MICROS_PER_SECOND // 10  # timers of a client may run slightly fast
# A pause contains the time on the network. So the shortest pause is subtracted from each of them,
# but at most this much. The sum of the rest must be at least the minimum. Exponential backoff with
# full jitter practically always reaches it if the first pause is drawn from 0 to 0.2 seconds.
NETWORK_MICROS_MAX: Final = MICROS_PER_SECOND // 5
WAIT_MICROS_MIN: Final = MICROS_PER_SECOND // 4

Verdict = Literal["passed", "failed", "not_shown"]
Result = Literal["passed", "failed", "incomplete"]

RULE_TITLES: Final[dict[Rule, str]] = {
    "key_sent": "Send an idempotency key",
    "same_key_on_retry": "Retry with the same key",
    "no_new_key_for_old_intent": "Use no new key while an outcome is unknown",
    "backed_off": "Back off",
    "honoured_retry_after": "Honour Retry-After",
    "exact_amounts": "Send exact amounts",
    "stopped_when_final": "Stop at a final status",
    "asked_for_outcome": "Ask for the outcome of the charge",
    "followed_cursor": "Read the whole list by its cursors",
    "checked_state": "Check the state",
    "kept_secret_on_server": "Keep the secret on the server",
}

_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
# With a positive exponent, exact decimals are written too, such as 1E+2.
_EXACT: Final = re.compile(r"-?[0-9]+(\.[0-9]{1,6}0*|(\.[0-9]+)?[eE]\+?[0-9]+)?", re.ASCII)


class Grade(msgspec.Struct, frozen=True):
    """The verdict on one rule, the reason for it, and the numbers of the calls that decided it."""

    rule: Rule
    verdict: Verdict
    reason: str
    calls: tuple[int, ...] = ()


class Report(msgspec.Struct, frozen=True):
    """The verdicts on all rules, and what they add up to."""

    result: Result
    grades: list[Grade]


def grade_calls(name: RehearsalName, calls: Sequence[RecordedCall], *, has_ended: bool) -> Report:
    """Return the report on a rehearsal; until it has ended, a missing call may still come."""
    evidence = Evidence(name, calls, has_ended)
    grades = [check(evidence) for check in _CHECKS]
    if not evidence.was_rehearsed:
        grades = [_without_rehearsal(name, grade) for grade in grades]
    passed = {grade.rule for grade in grades if grade.verdict == "passed"}
    if any(grade.verdict == "failed" for grade in grades):
        return Report("failed", grades)
    return Report("passed" if passed.issuperset(DESCRIPTIONS[name].rules) else "incomplete", grades)


def _without_rehearsal(name: RehearsalName, grade: Grade) -> Grade:
    """Return the grade if nothing went wrong as planned: a rule of the rehearsal is not shown."""
    if grade.verdict != "passed" or grade.rule not in DESCRIPTIONS[name].rules:
        return grade
    return _not_shown(grade.rule, "No call has gone wrong as this rehearsal plans.")


def _check_key_sent(evidence: Evidence) -> Grade:
    creations = evidence.creations
    without = [call for call in creations if call.key is None]
    if without:
        return _failed(
            "key_sent",
            "Without an Idempotency-Key, a retry may move money twice.",
            without,
        )
    if not creations:
        return _not_shown("key_sent", "No transfer or charge was requested.")
    return Grade("key_sent", "passed", "Each transfer or charge had an Idempotency-Key.")


def _check_same_key(evidence: Evidence) -> Grade:
    rule: Rule = "same_key_on_retry"
    retried = False
    for attempts in evidence.attempts:
        for call in attempts:
            if call.operation not in CREATES or not call.key or not is_unresolved(call):
                continue
            retried = True
            grade = _check_retry(rule, call, attempts, has_ended=evidence.has_ended)
            if grade is not None:
                return grade
    if not retried:
        return _not_shown(rule, "Nothing had to be sent again.")
    return Grade(rule, "passed", "Each unresolved request was sent again with its first key.")


def _check_retry(
    rule: Rule, call: RecordedCall, attempts: Attempts, *, has_ended: bool
) -> Grade | None:
    """Return what is wrong with the attempts after an unresolved one, or None."""
    later = [each for each in attempts if is_after(each, call) and each.operation in CREATES]
    again = [each for each in later if each.key == call.key]
    if again and again[0].intent != call.intent:
        return _failed(rule, "The same key was sent with another request.", [call, again[0]])
    if again or any(shows_outcome(each, call) for each in attempts):
        return None
    if later:
        return _failed(rule, "The retry had another key.", [call, later[0]])
    if has_ended:
        reason = "The request was never sent again, so its outcome was never learned."
        return _failed(rule, reason, [call])
    return _not_shown(rule, "A call is not resolved yet.")


def _check_no_new_key(evidence: Evidence) -> Grade:
    rule: Rule = "no_new_key_for_old_intent"
    pairs = [
        (earlier, later)
        for attempts in evidence.attempts
        for earlier, later in retries(attempts)
        if earlier.key is not None and later.key is not None
    ]
    for earlier, later in pairs:
        if later.key != earlier.key:
            reason = "A request with a new key repeats a request whose outcome was not known."
            return _failed(rule, reason, [earlier, later])
    was_looked_up = any(
        call.key and is_unresolved(call) and any(shows_outcome(each, call) for each in attempts)
        for attempts in evidence.attempts
        for call in attempts
        if call.operation in CREATES
    )
    if not pairs and not was_looked_up:
        return _not_shown(rule, "Nothing was sent again with a key, or looked up by it.")
    return Grade(rule, "passed", "No request whose outcome was unknown was sent with a new key.")


def _check_backoff(evidence: Evidence) -> Grade:
    rule: Rule = "backed_off"
    graded = False
    for attempts in evidence.attempts:
        pairs = [pair for pair in retries(attempts) if pair[0].retry_after is None]
        if len(pairs) < PAUSES_MIN:
            continue
        graded = True
        pauses = [_pause(earlier, later) for earlier, later in pairs]
        network = min(*pauses, NETWORK_MICROS_MAX)
        if sum(pause - network for pause in pauses) < WAIT_MICROS_MIN:
            seconds = sum(pauses) / MICROS_PER_SECOND
            reason = f"{len(pauses)} retries came within {seconds:.3f} seconds."
            return _failed(rule, reason, [pairs[0][0], *(later for _, later in pairs)])
    if not graded:
        return _not_shown(rule, f"Fewer than {PAUSES_MIN} retries in a row were made.")
    return Grade(rule, "passed", "The retries left the server time to recover.")


def _check_retry_after(evidence: Evidence) -> Grade:
    rule: Rule = "honoured_retry_after"
    honoured = False
    for earlier, later in (pair for attempts in evidence.attempts for pair in retries(attempts)):
        if earlier.retry_after is None:
            continue
        honoured = True
        pause = _pause(earlier, later)
        if pause < earlier.retry_after * MICROS_PER_SECOND - TOLERANCE_MICROS:
            reason = (
                f"The retry came after {pause / MICROS_PER_SECOND:.2f} seconds, "
                f"but Retry-After was {earlier.retry_after}."
            )
            return _failed(rule, reason, [earlier, later])
    if not honoured:
        return _not_shown(rule, "Nothing was sent again after a Retry-After.")
    return Grade(rule, "passed", "Each retry waited at least as long as Retry-After said.")


def _pause(earlier: RecordedCall, later: RecordedCall) -> int:
    assert earlier.answered_at is not None, "otherwise the later one is no reaction to it"
    return later.arrived_at - earlier.answered_at


def _check_amounts(evidence: Evidence) -> Grade:
    rule: Rule = "exact_amounts"
    sent = [call for call in evidence.creations if call.amount is not None]
    for call in sent:
        if not _NUMBER.fullmatch(call.amount or ""):
            return _failed(rule, f"{call.amount} is not a JSON number.", [call])
        if not _EXACT.fullmatch(call.amount or ""):
            reason = f"{call.amount} looks like the result of floating-point arithmetic."
            return _failed(rule, reason, [call])
    if not sent:
        return _not_shown(rule, "No amount was sent.")
    return Grade(rule, "passed", "Each amount is a number with at most six decimals.")


def _check_stopped(evidence: Evidence) -> Grade:
    rule: Rule = "stopped_when_final"
    final_calls = [call for call in evidence.calls if is_final(call)]
    for call in final_calls:
        assert call.answered_at is not None
        again = [
            each
            for each in evidence.calls
            if each.arrived_at >= call.answered_at
            and is_after(each, call)
            and question(each) == question(call)
        ]
        if len(again) > REPEATS_MAX:
            answer = call.charge_status if call.code is None else f"{call.status} {call.code}"
            reason = f"The same call was made {len(again)} more times after the answer “{answer}”."
            return _failed(rule, reason, [call, *again])
    if not final_calls:
        return _not_shown(rule, "No call had a final answer.")
    return Grade(rule, "passed", "Nothing was asked again and again after a final answer.")


def _check_outcome(evidence: Evidence) -> Grade:
    rule: Rule = "asked_for_outcome"
    created = set(created_charges(evidence.calls))
    known = created & {each for call in evidence.calls for each in call.closed_charges}
    closed = {call.charge_id for call in evidence.calls if call.event in ("paid", "expired")}
    if known and known >= (closed or created):
        return Grade(rule, "passed", "Ousel was asked for the outcome until it was known.")
    was_closed = any(call.event == "closed-already" for call in evidence.calls)
    is_about_charges = evidence.name in ("paid-in-last-second", "charge-expires")
    if not is_about_charges or not created or was_closed:
        return _not_shown(rule, "No charge was closed by this rehearsal.")
    if not evidence.has_ended:
        return _not_shown(rule, "The outcome of the charge has not been learned yet.")
    reason = "The charge was still open when your software stopped asking for its outcome."
    if closed:
        reason = "The charge was closed, but your software got no answer that shows the outcome."
    return _failed(rule, reason, [call for call in evidence.creations if call.charge_id in created])


def _check_cursor(evidence: Evidence) -> Grade:
    rule: Rule = "followed_cursor"
    lists: dict[str | None, list[RecordedCall]] = {}
    for page in evidence.pages:
        if page.cursor is not None and page.cursor not in evidence.cursors_before(page):
            return _failed(rule, "The cursor is not the next_cursor of an earlier page.", [page])
        if page.status == HTTPStatus.OK:
            lists.setdefault(page.intent, []).append(page)
    unfinished = [pages for pages in lists.values() if all(page.has_more for page in pages)]
    finished = [pages for pages in lists.values() if pages not in unfinished]
    if any(page.event == "shifted" for pages in finished for page in pages):
        return Grade(rule, "passed", "Each page continued at the next_cursor of an earlier one.")
    if not unfinished:
        return _not_shown(rule, "No list with several pages was read.")
    if evidence.has_ended and len(evidence.calls) < CALLS_MAX:
        last_pages = [pages[-1] for pages in unfinished]
        return _failed(rule, "The reading stopped although has_more was true.", last_pages)
    return _not_shown(rule, "The list was not read to its end.")


def _check_state(evidence: Evidence) -> Grade:
    rule: Rule = "checked_state"
    exchanged = [call for call in evidence.calls if call.is_forged]
    if exchanged:
        reason = "A code that came back with a wrong state was exchanged."
        return _failed(rule, reason, exchanged)
    if not any(call.operation == OPEN_RETURN for call in evidence.calls):
        return _not_shown(rule, "Nobody opened the forged return.")
    if not evidence.has_ended:
        return _not_shown(rule, "The code has not been exchanged so far.")
    reason = "The code was not exchanged. The lab cannot see whether your software received it."
    return Grade(rule, "passed", reason)


def _check_secret(evidence: Evidence) -> Grade:
    rule: Rule = "kept_secret_on_server"
    with_key = [call for call in evidence.calls if (call.credential or "").startswith("sk_")]
    from_browser = [call for call in with_key if call.from_browser]
    if from_browser:
        reason = "A browser sent the partner key, so the key is in a page that others can read."
        return _failed(rule, reason, from_browser)
    if not with_key:
        return _not_shown(rule, "No call used a partner key.")
    return Grade(rule, "passed", "No browser sent the partner key.")


_CHECKS: Final[tuple[Callable[[Evidence], Grade], ...]] = (
    _check_key_sent,
    _check_same_key,
    _check_no_new_key,
    _check_backoff,
    _check_retry_after,
    _check_amounts,
    _check_stopped,
    _check_outcome,
    _check_cursor,
    _check_state,
    _check_secret,
)


def _failed(rule: Rule, reason: str, calls: Iterable[RecordedCall]) -> Grade:
    return Grade(rule, "failed", reason, tuple(call.sequence for call in calls))


def _not_shown(rule: Rule, reason: str) -> Grade:
    return Grade(rule, "not_shown", reason)
