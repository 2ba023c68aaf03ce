"""Turning error answers into exceptions."""

import time
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final

from ousel_client import errors, refusals
from ousel_client.decoding import Undecodable, parse_object
from ousel_client.errors import SERVER_ERRORS, ApiError, BadRequest, Problem, ServerError
from ousel_client.exchange import Answer

_PROBLEM_FIELDS: Final = frozenset(
    {"type", "title", "status", "detail", "code", "param", "request_id"}
)
_OAUTH_FIELDS: Final = frozenset({"error", "error_description"})
_KINDS: Final = [
    kind
    for kind in (*vars(errors).values(), *vars(refusals).values())
    if isinstance(kind, type) and issubclass(kind, ApiError)
]
_BY_CODE: Final = {kind.code: kind for kind in _KINDS if kind.code}
_BY_STATUS: Final = {kind.status: kind for kind in _KINDS if kind.status and not kind.code}


def error_from_answer(answer: Answer) -> ApiError:
    """Return the exception for an error answer."""
    return error_from_problem(_parse_problem(answer))


def error_from_code(code: str, detail: str) -> ApiError:
    """Return the exception for an error that has no status of its own."""
    kind = _BY_CODE.get(code, BadRequest)
    return kind(Problem(status=kind.status, code=code, detail=detail))


def error_from_problem(problem: Problem) -> ApiError:
    """Return the exception for the code of the problem, or else for its status."""
    kind = _BY_CODE.get(problem.code) or _BY_STATUS.get(problem.status)
    if kind is None:
        kind = ServerError if problem.status >= SERVER_ERRORS else ApiError
    return kind(problem)


def _parse_problem(answer: Answer) -> Problem:
    """Return the problem in the answer, which has the form of RFC 9457 or, for OAuth, RFC 6749."""
    try:
        fields = parse_object(answer.body)
    except Undecodable:  # not sent by the server, but by a proxy in front of it
        fields = {}
    code, detail, param = fields.get("code"), fields.get("detail"), fields.get("param")
    return Problem(
        status=answer.status,
        code=_text(code) or _text(fields.get("error")),
        detail=_text(detail) or _text(fields.get("error_description")),
        param=_text(param) or None,
        request_id=answer.headers.get("x-request-id"),
        retry_after_seconds=_retry_after_seconds(answer.headers.get("retry-after", "")),
        members={
            name: value
            for name, value in fields.items()
            if name not in _PROBLEM_FIELDS | _OAUTH_FIELDS
        },
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _retry_after_seconds(value: str) -> float | None:
    """Return how long the server asks to wait. The header is a number of seconds or a date."""
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return max(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() - time.time(), 0.0)
