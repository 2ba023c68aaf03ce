"""The exceptions of this client. All of them are OuselErrors.

An error answer is an ApiError. There is a subclass for each common status, such as BadRequest.
`ousel_client.refusals` has classes for error codes. They are subclasses of these or of ApiError.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ousel_client.records import Charge

SERVER_ERRORS: Final = 500


class OuselError(Exception):
    """The base class of this client's exceptions, except for those about wrong arguments.

    `idempotency_key` is the key that was sent with the request. If `in_doubt` is true, an attempt
    may have taken effect although no answer said so: keep the key, and send the same request again.
    """

    def __init__(self, message: str) -> None:
        """Say what went wrong in one sentence."""
        super().__init__(message)
        self.idempotency_key: str | None = None
        self.in_doubt = False
        self.attempts = 0

    # Python 3.11 has no typing.override.
    def __reduce__(self) -> tuple[Any, ...]:  # type: ignore[explicit-override]
        """Let pickle, and so pools of processes, copy the exception with all its attributes."""
        return _recreate, (type(self), self.args), self.__dict__


def _recreate(kind: type[OuselError], args: tuple[Any, ...]) -> OuselError:
    """Return an exception, without `__init__`, whose parameters differ between the classes."""
    error = kind.__new__(kind)
    error.args = args
    return error


class ConnectionFailed(OuselError):
    """The last attempt got no answer: it did not reach the server, broke off or timed out."""


class UnexpectedAnswer(OuselError):
    """The answer does not have the documented form. Perhaps it did not come from Ousel."""


class ReturnNotTrusted(OuselError):
    """The state or the issuer in the return address is not the expected one."""


class WaitTimedOut(OuselError, TimeoutError):
    """The charge is still open. `charge` is its last known state."""

    def __init__(self, charge: Charge) -> None:
        """Store the last known state of the charge."""
        super().__init__(f"Charge {charge.id} is still {charge.status}.")
        self.charge = charge


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """The contents of an error answer."""

    status: int
    code: str = ""
    detail: str = ""
    param: str | None = None
    request_id: str | None = None
    retry_after_seconds: float | None = None
    members: Mapping[str, Any] = field(default_factory=dict)


class ApiError(OuselError):
    """The server answered with an error.

    `code` is for programs and never changes, `detail` is for people, `param` names the field at
    fault if there is one, and `members` contains any further fields of the answer.
    """

    status: int = 0
    code: str = ""

    def __init__(self, problem: Problem) -> None:
        """Store everything that the answer says."""
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
    """The request must be changed, or the balance increased. It is not retried."""

    status = 400


class NotAuthenticated(ApiError):
    """The key or token is not valid, or no longer valid."""

    status = 401


class Forbidden(ApiError):
    """The caller is not allowed to do this."""

    status = 403


class Missing(ApiError):
    """The object that the request names does not exist."""

    status = 404


class Conflict(ApiError):
    """The request contradicts an earlier one."""

    status = 409


class Throttled(ApiError):
    """There were too many requests, and retrying did not help in time."""

    status = 429


class ServerError(ApiError):
    """The server failed. A request that may be repeated was retried, but without success."""

    status = 500
