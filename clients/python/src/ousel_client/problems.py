"""From an answer that says no to the exception that tells it."""

import time
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final

from ousel_client import errors, refusals
from ousel_client.decoding import Undecodable, parsed
from ousel_client.errors import SERVER_ERRORS, ApiError, Problem, ServerError
from ousel_client.exchange import Answer

_TOLD: Final = frozenset({"type", "title", "status", "detail", "code", "param", "request_id"})
_TOLD_BY_OAUTH: Final = frozenset({"error", "error_description"})
_KINDS: Final = [
    kind
    for kind in (*vars(errors).values(), *vars(refusals).values())
    if isinstance(kind, type) and issubclass(kind, ApiError)
]
_BY_CODE: Final = {kind.code: kind for kind in _KINDS if kind.code}
_BY_STATUS: Final = {kind.status: kind for kind in _KINDS if kind.status and not kind.code}


def error_of(answer: Answer) -> ApiError:
    """Return the exception for an answer that says no."""
    return error_with(_problem_of(answer))


def error_with(problem: Problem) -> ApiError:
    """Return the problem as the exception for its code, or else for its status."""
    kind = _BY_CODE.get(problem.code) or _BY_STATUS.get(problem.status)
    if kind is None:
        kind = ServerError if problem.status >= SERVER_ERRORS else ApiError
    return kind(problem)


def _problem_of(answer: Answer) -> Problem:
    """Return what the answer tells: as a problem (RFC 9457) or in OAuth's form (RFC 6749)."""
    try:
        told = parsed(answer.body)
    except Undecodable:  # not from the server itself, but from something before it
        told = {}
    code, detail, param = told.get("code"), told.get("detail"), told.get("param")
    return Problem(
        status=answer.status,
        code=_text(code) or _text(told.get("error")),
        detail=_text(detail) or _text(told.get("error_description")),
        param=_text(param) or None,
        request_id=answer.headers.get("x-request-id"),
        retry_after_seconds=_retry_after_seconds(answer.headers.get("retry-after", "")),
        members={name: value for name, value in told.items() if name not in _TOLD | _TOLD_BY_OAUTH},
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _retry_after_seconds(value: str) -> float | None:
    """Return how long the server asks to wait, in either form that it may say so."""
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() - time.time(), 0.0)
