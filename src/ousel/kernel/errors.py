"""Refusals: every error that a caller can get is a class with a stable code.

Errors for operators have only a text.
"""

from collections.abc import Callable, Iterator
from typing import ClassVar, TypeVar

Value = TypeVar("Value")


class OperatorError(Exception):
    """A command fails, or a server does not start; the text says why in one line."""


class Refusal(Exception):
    """A request is refused; the exception carries everything that its answer needs.

    A subclass states its HTTP status, its machine-readable code, a title, and the cure: what
    the caller should do about it. The documentation prints its docstring as the cause.
    """

    status: ClassVar[int]
    code: ClassVar[str]
    title: ClassVar[str]
    cure: ClassVar[str]
    is_for_operator: ClassVar[bool] = False  # pages do not show its detail; the log has it
    ends_soon: ClassVar[bool] = False  # so a caller may wait for its end

    def __init__(
        self,
        detail: str,
        *,
        param: str | None = None,
        retry_after_seconds: int | None = None,
        members: dict[str, str] | None = None,
    ) -> None:
        """Say what is wrong in one sentence, and name the field at fault if there is one."""
        super().__init__(detail)
        self.detail = detail
        self.param = param
        self.retry_after_seconds = retry_after_seconds
        self.members = members or {}


def release_frames(error: BaseException) -> None:
    """Remove the traceback of an error that was dealt with, and those of the errors before it.

    A frame often has the error in a variable, so the two keep each other in memory until the
    garbage collector finds them. After thousands of refusals, that took it 50 milliseconds.
    """
    earlier: BaseException | None = error
    while earlier is not None:
        earlier.__traceback__ = None
        earlier = earlier.__cause__ or earlier.__context__


def first_cause(error: BaseException) -> BaseException:
    """Return the error that this one was raised from in the end, or the error itself."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


class InvalidAmount(Refusal):
    """The amount is not a JSON number, or it is out of range, or has too many decimals."""

    status = 400
    code = "invalid_amount"
    title = "The amount is not valid"
    cure = "Send a JSON number from 0.000001 to 999999999.999999 with at most 6 decimals."


class InvalidField(Refusal):
    """A field or query parameter has the wrong type, length, characters or value."""

    status = 400
    code = "invalid_field"
    title = "A field is not valid"
    cure = "Read `detail`, and correct the field that `param` names."


class InvalidForm(InvalidField):
    """One or more fields of a form are not valid."""

    def __init__(self, errors: dict[str, str]) -> None:
        """State what is wrong with each field, by name."""
        param, detail = next(iter(errors.items()))
        super().__init__(detail, param=param)
        self.errors = errors


class FieldChecks:
    """Checks the fields of a form one by one, to name all that are wrong at once."""

    def __init__(self) -> None:
        """Start without errors."""
        self.errors: dict[str, str] = {}

    def value(self, check: Callable[[], Value], param: str) -> Value | None:
        """Return what the check returns, or None if it refuses the field."""
        try:
            return check()
        except Refusal as refusal:
            self.errors[param] = refusal.detail
            return None

    def finish(self) -> None:
        """Raise InvalidForm if a field was refused."""
        if self.errors:
            raise InvalidForm(self.errors)


class IdentityCheckNeeded(Refusal):
    """The action needs a password, code or passkey. None was given recently, or it was wrong."""

    status = 403
    code = "identity_check_needed"
    title = "Confirm that it is you"
    cure = "Give the password or, if two-factor sign-in is on, a code or a passkey."

    def __init__(self, detail: str, *, param: str | None = None, purpose: str = "") -> None:
        """Say what is missing or wrong, and what the check is for, such as `send 25.00 OUSD`."""
        super().__init__(detail, param=param)
        self.purpose = purpose


class RateLimited(Refusal):
    """The key has made more requests than its limit allows, or too many searches at once."""

    status = 429
    code = "rate_limited"
    title = "Too many requests"
    cure = "Wait for `Retry-After` seconds, then retry with backoff, keeping the Idempotency-Key."


class DatabaseUnavailable(Refusal):
    """The database could not be reached, did not answer in time, or failed. Nothing was written."""

    status = 503
    code = "database_unavailable"
    title = "The database is not available"
    cure = "Retry with exponential backoff, keeping the Idempotency-Key."
    is_for_operator = True


class OutcomeUnknown(Refusal):
    """The connection to the database broke, or its disk failed, during a commit."""

    status = 503
    code = "outcome_unknown"
    title = "The outcome is not known"
    cure = (
        "Send the same request again with the same Idempotency-Key: the answer states the outcome."
        " Without a key, look at your transfers or charges before you repeat it. A cancellation"
        " needs no key."
    )
    is_for_operator = True


class DeadlineExceeded(Refusal):
    """The deadline of the request passed before its commit could begin, so nothing was written."""

    status = 503
    code = "deadline_exceeded"
    title = "The deadline of the request has passed"
    cure = "Retry with exponential backoff, keeping the Idempotency-Key."


def all_refusals(root: type[Refusal] = Refusal) -> Iterator[type[Refusal]]:
    """Yield each class of refusal that has a code, in the order of definition."""
    for refusal in root.__subclasses__():
        if "code" in vars(refusal):
            yield refusal
        yield from all_refusals(refusal)
