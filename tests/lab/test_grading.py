"""Grading is a function of the recorded calls: what each rule takes for kept or broken."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ousel.kernel.clock import MICROS_PER_SECOND
from ousel.lab.advice import next_step, what_happened
from ousel.lab.evidence import LOOKUP_MICROS
from ousel.lab.grading import (
    NETWORK_MICROS_MAX,
    PAUSES_MIN,
    REPEATS_MAX,
    RULE_TITLES,
    Verdict,
    grade_calls,
)
from ousel.lab.rules import (
    CALLS_MAX,
    DESCRIPTIONS,
    RecordedCall,
    RehearsalName,
    Rule,
    is_disturbed,
    plan_call,
)

SECOND = MICROS_PER_SECOND
NAMES = st.sampled_from(list(DESCRIPTIONS))
OPERATIONS = st.sampled_from(
    ["createTransfer", "createCharge", "getCharge", "listTransfers", "getMe", "openForgedReturn"]
)
SMALL_TEXTS = st.none() | st.sampled_from(["a", "b"])


def call(sequence: int = 1, **facts: Any) -> RecordedCall:
    """Return a request for a transfer that succeeded, unless the facts say otherwise."""
    usual: dict[str, Any] = {
        "operation": "createTransfer",
        "method": "POST",
        "path": "/v1/transfers",
        "arrived_at": sequence * SECOND,
        "answered_at": sequence * SECOND,
        "status": 201,
        "credential": "sk_test_12345678",
        "key": "key",
        "intent": "intent",
        "amount": "1.50",
    }
    return RecordedCall(sequence=sequence, **usual | facts)


def lost(**facts: Any) -> RecordedCall:
    """Return a request whose answer the lab has dropped."""
    return call(1, status=None, disturbance="drop-after-commit", **facts)


def verdict(
    rule: Rule, *calls: RecordedCall, name: RehearsalName = "unavailable", has_ended: bool = True
) -> Verdict:
    """Return the verdict on one rule."""
    grades = grade_calls(name, calls, has_ended=has_ended).grades
    return next(grade.verdict for grade in grades if grade.rule == rule)


@st.composite
def any_calls(draw: st.DrawFn) -> list[RecordedCall]:
    """Any calls in the order of their arrival, also those that no client would make."""
    count = draw(st.integers(0, 8))
    times = sorted(draw(st.lists(st.integers(0, 10 * SECOND), min_size=count, max_size=count)))
    return [
        call(
            sequence,
            operation=draw(OPERATIONS),
            arrived_at=arrived_at,
            answered_at=draw(st.none() | st.integers(arrived_at, arrived_at + SECOND)),
            status=draw(st.sampled_from([None, 200, 201, 303, 400, 401, 404, 409, 429, 503])),
            key=draw(SMALL_TEXTS),
            intent=draw(SMALL_TEXTS),
            cursor=draw(SMALL_TEXTS),
            next_cursor=draw(SMALL_TEXTS),
            has_more=draw(st.booleans()),
            amount=draw(st.sampled_from([None, "1", "1.50", "0.30000000000000004", "1e-06"])),
            retry_after=draw(st.sampled_from([None, 1, 2])),
            charge_id=draw(SMALL_TEXTS),
            charge_status=draw(st.sampled_from([None, "created", "paid", "expired"])),
            closed_charges=draw(st.sampled_from([(), ("a",), ("a", "b")])),
            found_nothing=draw(st.booleans()),
            limit=draw(st.sampled_from([None, "1", "50"])),
            disturbance=draw(st.sampled_from([None, "drop-after-commit", "key-revoked"])),
            from_browser=draw(st.booleans()),
            is_forged=draw(st.booleans()),
            event=draw(st.sampled_from([None, "shortened", "shifted", "paid", "closed-already"])),
        )
        for sequence, arrived_at in enumerate(times, 1)
    ]


@given(name=NAMES, calls=any_calls(), has_ended=st.booleans())
def test_any_calls_get_a_verdict_on_every_rule(
    *, name: RehearsalName, calls: list[RecordedCall], has_ended: bool
) -> None:
    """Each rule has one grade with a reason; a broken one names its calls; results follow."""
    report = grade_calls(name, calls, has_ended=has_ended)

    verdicts = {grade.rule: grade.verdict for grade in report.grades}
    assert set(DESCRIPTIONS[name].rules) <= set(verdicts)
    assert len(verdicts) == len(report.grades)
    for grade in report.grades:
        assert grade.reason
        assert set(grade.calls) <= {each.sequence for each in calls}
        assert bool(grade.calls) == (grade.verdict == "failed")
    assert (report.result == "failed") == ("failed" in verdicts.values())
    if report.result == "passed":
        assert {verdicts[rule] for rule in DESCRIPTIONS[name].rules} == {"passed"}
    assert all(what_happened(each) and next_step(each) for each in calls)


@pytest.mark.slow
@given(any_calls())
def test_only_the_end_can_turn_a_missing_call_into_a_fault(calls: list[RecordedCall]) -> None:
    """What was broken while the rehearsal ran stays broken when it has ended."""
    running = grade_calls("page-shifts", calls, has_ended=False).grades
    ended = grade_calls("page-shifts", calls, has_ended=True).grades

    for before, after in zip(running, ended, strict=True):
        assert before.verdict in (after.verdict, "not_shown")


@given(st.integers(1, 6), st.integers(0, 3), st.sampled_from([None, 503, 429]), st.data())
def test_a_client_that_keeps_the_rules_never_fails(
    failures: int, asked: int, status: int | None, data: st.DataObject
) -> None:
    """Whatever fails how often: the same key, growing pauses and Retry-After are enough."""
    now, calls = 0, []
    for attempt in range(failures):
        retry_after = asked if asked and status is not None else None
        calls.append(
            call(
                attempt + 1,
                arrived_at=now,
                answered_at=now,
                status=status,
                retry_after=retry_after,
                disturbance="drop-after-commit",
            )
        )
        backoff = 200_000 * 2**attempt
        jitter = data.draw(st.integers(backoff // 2, backoff))
        now += (retry_after or 0) * SECOND + jitter
    calls.append(call(failures + 1, arrived_at=now, answered_at=now))

    report = grade_calls("answer-lost-after-commit", calls, has_ended=True)

    assert report.result == "passed"


@given(st.integers(PAUSES_MIN, 8), st.integers(0, NETWORK_MICROS_MAX))
def test_retries_without_pauses_break_the_rule_of_backoff(retries: int, pause: int) -> None:
    """Five or more retries that only a slow network keeps apart are too quick."""
    calls = [
        call(number + 1, arrived_at=number * pause, answered_at=number * pause, status=503)
        for number in range(retries + 1)
    ]

    assert verdict("backed_off", *calls) == "failed"
    assert verdict("backed_off", *calls[:PAUSES_MIN]) == "not_shown"


@given(st.integers(1, 60), st.integers(0, 60 * SECOND))
def test_retry_after_is_honoured_or_not(asked: int, pause: int) -> None:
    """A retry may come at most a tenth of a second early."""
    first = call(1, answered_at=SECOND, status=503, retry_after=asked)
    retry = call(2, arrived_at=SECOND + pause, answered_at=SECOND + pause)

    expected = "passed" if pause >= asked * SECOND - SECOND // 10 else "failed"
    assert verdict("honoured_retry_after", first, retry) == expected


def test_a_new_key_is_a_fault_only_for_an_unresolved_intent() -> None:
    """Two equal payments are two intents if the first one was answered before the second came."""
    paid, slow = call(1), lost(answered_at=None)
    second = call(2, key="another")

    assert verdict("no_new_key_for_old_intent", lost(), second) == "failed"
    assert verdict("same_key_on_retry", lost(), second) == "failed"
    assert verdict("no_new_key_for_old_intent", paid, second) == "not_shown"
    assert verdict("no_new_key_for_old_intent", slow, second) == "not_shown"


def test_a_lost_answer_may_also_be_looked_up() -> None:
    """Listing the transfers with the key shows the outcome as well as a retry does."""
    lookup = call(2, operation="listTransfers", intent=None, amount=None, status=200)

    for rule in ("same_key_on_retry", "no_new_key_for_old_intent"):
        assert verdict(rule, lost(), lookup) == "passed"


@pytest.mark.parametrize(
    ("status", "found_nothing"), [(200, True), (503, False)], ids=["too early", "no answer"]
)
def test_a_look_up_that_shows_nothing_is_no_retry(status: int, *, found_nothing: bool) -> None:
    """The key may still move money, so a client that gives up then loses the payment."""
    lookup = call(
        2,
        operation="listTransfers",
        intent=None,
        amount=None,
        status=status,
        found_nothing=found_nothing,
    )

    assert verdict("same_key_on_retry", lost(), lookup) == "failed"


def test_an_answer_to_an_earlier_request_also_shows_the_outcome() -> None:
    """A client that asks twice at once, and hangs up on the second, has learned the outcome."""
    slow = call(1, answered_at=6 * SECOND)
    hung_up = call(2, status=None, answered_at=3 * SECOND)

    assert verdict("same_key_on_retry", slow, hung_up, name="forged-return") == "passed"


def test_a_retry_without_any_key_shows_nothing_about_keys() -> None:
    """It breaks another rule."""
    first, second = lost(key=None), call(2, key=None)

    assert verdict("no_new_key_for_old_intent", first, second) == "not_shown"
    assert verdict("key_sent", first, second) == "failed"


@pytest.mark.parametrize(
    ("waited", "expected"), [(LOOKUP_MICROS - 1, "failed"), (LOOKUP_MICROS, "passed")]
)
def test_a_new_key_may_follow_once_the_first_one_can_move_nothing(
    waited: int, expected: Verdict
) -> None:
    """A key that is not found a minute after its last use will never move money."""
    first = lost()
    at = first.arrived_at + waited
    nothing = {"status": 200, "found_nothing": True, "arrived_at": at, "answered_at": at}
    lookup = call(2, operation="listTransfers", intent=None, amount=None, **nothing)
    second = call(3, key="another", arrived_at=at, answered_at=at)

    assert verdict("no_new_key_for_old_intent", first, lookup, second) == expected


def test_a_call_with_a_fault_of_its_own_has_not_been_disturbed() -> None:
    """If the answer was not lost, nothing was rehearsed, and the first valid call is disturbed."""
    refused = call(1, status=400, code="invalid_field", disturbance="drop-after-commit")
    second = call(2)

    report = grade_calls("answer-lost-after-commit", [refused, second], has_ended=True)

    assert report.result == "incomplete"
    assert {grade.verdict for grade in report.grades if grade.rule == "key_sent"} == {"not_shown"}
    assert plan_call("answer-lost-after-commit", second, [refused]).disturbance is not None


def test_the_same_key_with_another_request_is_a_fault() -> None:
    """A retry sends the same body."""
    changed = call(2, intent="changed", status=409, code="idempotency_conflict")

    assert verdict("same_key_on_retry", lost(), changed) == "failed"


@given(st.integers(0, 6))
def test_a_person_may_reload_a_page_after_a_final_status(repeats: int) -> None:
    """A loop that goes on asking is a fault; a few reloads are not."""
    polls = [
        call(
            number + 1,
            operation="getCharge",
            path="/v1/charges/ch_1",
            status=200,
            charge_status="paid",
            key=None,
            intent=None,
            amount=None,
        )
        for number in range(repeats + 1)
    ]

    expected = "failed" if repeats > REPEATS_MAX else "passed"
    assert verdict("stopped_when_final", *polls) == expected


def test_the_outcome_of_a_charge_is_asked_for() -> None:
    """Until an answer shows the outcome; the lab must not have closed another charge unseen."""
    created = call(1, operation="createCharge", charge_id="ch_1", charge_status="created")
    asked = call(2, operation="getCharge", charge_id="ch_1", charge_status="created", key=None)
    unseen = msgspec.structs.replace(asked, sequence=3, event="paid", status=None)
    seen = msgspec.structs.replace(unseen, status=200, closed_charges=("ch_1",))
    final = msgspec.structs.replace(asked, charge_status="canceled", closed_charges=("ch_1",))
    other = msgspec.structs.replace(created, charge_id="ch_2")

    expected: dict[Verdict, list[list[RecordedCall]]] = {
        "passed": [[created, asked, seen], [created, asked, unseen, final], [created, final]],
        "failed": [
            [created],
            [created, asked],
            [created, asked, unseen],
            [other, created, unseen],
            [other, final, created],  # another charge was canceled
        ],
        "not_shown": [[], [call()]],
    }
    for wanted, cases in expected.items():
        for calls in cases:
            assert verdict("asked_for_outcome", *calls, name="charge-expires") == wanted
    assert verdict("asked_for_outcome", created, asked) == "not_shown"


def test_a_charge_that_was_closed_already_says_nothing_about_the_client() -> None:
    """The lab did not close it, and a list of transfers does not show that it is closed."""
    created = call(1, operation="createCharge", charge_id="ch_1", charge_status="created")
    listed = call(2, operation="listTransfers", key=None, event="closed-already")

    assert verdict("asked_for_outcome", created, listed, name="paid-in-last-second") == "not_shown"


def test_only_the_credential_that_was_used_first_is_refused() -> None:
    """Another person's token works, also between the calls with the token that has expired."""
    planned: list[RecordedCall] = []
    for sequence, person in enumerate(["ada", "bob", "ada", "bob", "ada"], 1):
        arrived = call(sequence, operation="getUserMe", credential=f"ut_test_{person}")
        plan = plan_call("token-expired", arrived, planned)
        planned.append(msgspec.structs.replace(arrived, disturbance=plan.disturbance))

    assert [each.sequence for each in planned if each.disturbance] == [3, 5]


def test_a_list_is_read_to_its_end() -> None:
    """A client that stops at a short page misses records; the limit of calls is not its fault."""
    listed = {"operation": "listTransfers", "status": 200, "key": None, "intent": None}
    first = call(1, **listed, event="shortened", next_cursor="a", has_more=True)
    last = call(2, **listed, event="shifted", cursor="a")
    alien = call(2, **listed, event="shifted", cursor="b")
    endless = [
        msgspec.structs.replace(
            first, sequence=number, cursor="a" if number > 1 else None, event="shifted"
        )
        for number in range(1, CALLS_MAX + 1)
    ]
    newest = call(3, **listed, limit="1", has_more=True)
    peek = call(1, **listed, limit="1", next_cursor="b", has_more=True)
    more = call(3, **listed, event="shifted", cursor="b")
    other = call(3, **listed | {"intent": "other"}, event="shortened", has_more=True)

    expected: dict[Verdict, list[list[RecordedCall]]] = {
        "passed": [[first, last], [first, last, newest], [first, last, other], [peek, first, more]],
        "failed": [[first], [first, alien]],
        "not_shown": [endless, [newest]],
    }
    for wanted, cases in expected.items():
        for calls in cases:
            assert verdict("followed_cursor", *calls, name="page-shifts") == wanted
    assert verdict("followed_cursor", first, name="page-shifts", has_ended=False) == "not_shown"


def test_a_list_stops_growing_so_that_it_can_be_read_to_its_end() -> None:
    """The lab adds two transfers to each list, and none for a look at the newest transfer."""
    planned: list[RecordedCall] = []
    for sequence, (cursor, limit) in enumerate(
        [(None, None), ("a", None), ("b", None), ("c", None), (None, "1")], 1
    ):
        page = call(sequence, operation="listTransfers", key=None, cursor=cursor, limit=limit)
        plan = plan_call("page-shifts", page, planned)
        planned.append(msgspec.structs.replace(page, event=plan.event))

    assert [each.event for each in planned] == ["shortened", "shifted", "shifted", None, None]


@given(NAMES, any_calls())
def test_each_plan_disturbs_a_bounded_number_of_creations(
    name: RehearsalName, calls: list[RecordedCall]
) -> None:
    """A client that goes on trying succeeds in the end, unless its credential is refused."""
    planned: list[RecordedCall] = []
    for each in calls:
        arrived = msgspec.structs.replace(each, event=None)
        plan = plan_call(name, arrived, planned)
        planned.append(
            msgspec.structs.replace(arrived, disturbance=plan.disturbance, event=plan.event)
        )

    disturbing = [each for each in planned if each.disturbance not in (None, "key-revoked")]
    assert sum(map(is_disturbed, disturbing)) <= 5  # those with a fault of their own do not count
    assert all(each.operation in ("createTransfer", "createCharge") for each in disturbing)
    assert sum(each.event in ("paid", "expired") for each in planned) <= 1


def test_the_guide_lists_every_rehearsal_and_every_rule() -> None:
    """The guide says of each rehearsal what the page of the lab says."""
    guide = (Path(__file__).parents[2] / "docs/how-to/rehearse-a-bad-day.md").read_text()

    for name, description in DESCRIPTIONS.items():
        assert f"| `{name}` | {description.happens} |" in guide
    for rule in RULE_TITLES:
        assert f"| `{rule}` |" in guide
