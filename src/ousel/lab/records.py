"""The record of a rehearsal: its calls and its grades."""

from typing import Annotated, Literal

import msgspec

from ousel.api.fields import Time
from ousel.kernel.clock import timestamp
from ousel.lab.advice import next_step, what_happened
from ousel.lab.grading import RULE_TITLES, Grade, Result, Verdict
from ousel.lab.rules import RecordedCall, RehearsalName, Rule
from ousel.lab.service import GradedRehearsal


class GradeRecord(msgspec.Struct, frozen=True):
    """The verdict on one rule."""

    rule: Rule
    title: str
    verdict: Verdict
    reason: str
    calls: Annotated[
        list[int], msgspec.Meta(description="The numbers of the calls that decided the verdict.")
    ]


class CallRecord(msgspec.Struct, frozen=True):
    """A recorded call, and what a good client does after it."""

    sequence: int
    method: str
    path: str
    arrived_at: Time
    status: Annotated[int | None, msgspec.Meta(description="Null if there was no answer.")]
    code: str | None
    happened: str
    next_step: str


class RehearsalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A rehearsal with the grades of your software so far."""

    object: Literal["rehearsal"] = "rehearsal"
    id: str
    rehearsal: RehearsalName
    status: Literal["running", "ended"]
    result: Annotated[
        Result,
        msgspec.Meta(
            description="Passed if no rule failed and all rules of this rehearsal have passed."
        ),
    ]
    started_at: Time
    ends_at: Time
    return_url: Annotated[
        str | None,
        msgspec.Meta(
            description="The link to open in the rehearsal `forged-return`: it leads to your"
            " redirect URI with a wrong state. Null in other rehearsals."
        ),
    ]
    grades: list[GradeRecord]
    calls: list[CallRecord]


def rehearsal_record(graded: GradedRehearsal, portal_url: str) -> RehearsalRecord:
    """Return the record of a rehearsal."""
    rehearsal = graded.rehearsal
    return RehearsalRecord(
        id=rehearsal.id,
        rehearsal=rehearsal.name,
        status="running" if graded.is_running else "ended",
        result=graded.report.result,
        started_at=timestamp(rehearsal.started_at),
        ends_at=timestamp(rehearsal.ends_at),
        return_url=return_url(graded, portal_url),
        grades=[_grade_record(grade) for grade in graded.report.grades],
        calls=[_call_record(call) for call in graded.calls],
    )


def return_url(graded: GradedRehearsal, portal_url: str) -> str | None:
    """Return the address of the forged return, if the rehearsal has one."""
    rehearsal = graded.rehearsal
    if rehearsal.name != "forged-return":
        return None
    return f"{portal_url}/sandbox/lab/{rehearsal.id}/return"


def _grade_record(grade: Grade) -> GradeRecord:
    return GradeRecord(
        grade.rule, RULE_TITLES[grade.rule], grade.verdict, grade.reason, list(grade.calls)
    )


def _call_record(call: RecordedCall) -> CallRecord:
    return CallRecord(
        call.sequence,
        call.method,
        call.path,
        timestamp(call.arrived_at),
        call.status,
        call.code,
        what_happened(call),
        next_step(call),
    )
