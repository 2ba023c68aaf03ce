"""What can go wrong. Every exception of this client is an OuselError.

An answer that says no is an ApiError: a class of its own for each code of the interface (see
`ousel_client.refusals`), below a class for each status that has a meaning.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ousel_client.records import Charge

SERVER_ERRORS: Final = 500


class OuselError(Exception):
    """Anything that this client raises of its own accord, other than a wrong argument.

    `idempotency_key` is the key that the request went out with. `in_doubt` says that some attempt
    may have had its effect although no answer tells so: keep the key, and send the same again.
    """

    def __init__(self, message: str) -> None:
        """Say what went wrong in one sentence."""
        super().__init__(message)
        self.idempotency_key: str | None = None
        self.in_doubt = False
        self.attempts = 0


class ConnectionFailed(OuselError):
    """No answer came: the server was not reached, or the connection broke or timed out."""


class UnexpectedAnswer(OuselError):
    """The answer is none that the interface knows; perhaps something else answered."""


class ReturnNotTrusted(OuselError):
    """Somebody came back with a state or an issuer that is not the one that was sent out."""


class WaitTimedOut(OuselError, TimeoutError):
    """The charge is still open; `charge` is how it was seen last."""

    def __init__(self, charge: Charge) -> None:
        """Keep what is known of the charge."""
        super().__init__(f"Charge {charge.id} is still {charge.status}.")
        self.charge = charge


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What an answer that says no tells."""

    status: int
    code: str = ""
    detail: str = ""
    param: str | None = None
    request_id: str | None = None
    retry_after_seconds: float | None = None
    members: Mapping[str, Any] = field(default_factory=dict)


class ApiError(OuselError):
    """The server answered no.

    `code` is stable and machine-readable, `detail` is for people, `param` is the field at fault
    where there is one, `members` has what the answer tells beyond these.
    """

    status: int = 0
    code: str = ""

    def __init__(self, problem: Problem) -> None:
        """Carry all that the answer tells."""
        words = f"{problem.status} {problem.code}".rstrip()
        request = f" (request {problem.request_id})" if problem.request_id else ""
        super().__init__(f"{words}: {problem.detail or 'the server did not say why'}{request}")
        self.status = problem.status
        self.code = problem.code
        self.detail = problem.detail
        self.param = problem.param
        self.request_id = problem.request_id
        self.retry_after_seconds = problem.retry_after_seconds
        self.members = problem.members


class BadRequest(ApiError):
    """The request must be changed, or the balance funded: it is never retried."""

    status = 400


class NotAuthenticated(ApiError):
    """The key or token is not valid (any more)."""

    status = 401


class Forbidden(ApiError):
    """The caller is known, and may not do this."""

    status = 403


class Missing(ApiError):
    """What the request speaks of is not there."""

    status = 404


class Conflict(ApiError):
    """The request contradicts an earlier one."""

    status = 409


class Throttled(ApiError):
    """Too many requests, and they did not become fewer in the time that retrying may take."""

    status = 429


class ServerError(ApiError):
    """The server failed, and went on failing for as long as retrying may take."""

    status = 500
