"""Problem answers: every refusal becomes application/problem+json (RFC 9457)."""

from typing import Annotated

import msgspec

from ousel.api.refusals import ChallengeRefusal
from ousel.http.messages import Answer, RawHeader, retry_after_header
from ousel.kernel.errors import Refusal


class Problem(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What went wrong, for people and for programs."""

    type: Annotated[str, msgspec.Meta(description="The documentation page of this error.")]
    title: str
    status: int
    detail: str
    code: Annotated[str, msgspec.Meta(description="Stable, machine-readable.")]
    request_id: str
    param: Annotated[str | None, msgspec.Meta(description="The field at fault.")] = None
    transfer_id: Annotated[
        str | None, msgspec.Meta(description="The transfer that the idempotency key was used for.")
    ] = None
    charge_id: Annotated[
        str | None,
        msgspec.Meta(
            description="The charge in question, or the one that the idempotency key was used for."
        ),
    ] = None
    charge_status: Annotated[
        str | None, msgspec.Meta(description="The status of the charge in question.")
    ] = None
    scope: Annotated[
        str | None, msgspec.Meta(description="The scope that the user token lacks.")
    ] = None


def problem_answer(
    refusal: Refusal, request_id: str, docs_url: str, headers: tuple[RawHeader, ...] = ()
) -> Answer:
    """Return the answer for a refusal."""
    problem = Problem(
        type=f"{docs_url}/errors#{refusal.code}",
        title=refusal.title,
        status=refusal.status,
        detail=refusal.detail,
        code=refusal.code,
        request_id=request_id,
        param=refusal.param,
        **refusal.members,
    )
    headers += retry_after_header(refusal)
    if isinstance(refusal, ChallengeRefusal):
        headers += ((b"www-authenticate", refusal.challenge),)
    body = msgspec.json.encode(problem)
    return Answer(refusal.status, body, b"application/problem+json", headers, code=refusal.code)
