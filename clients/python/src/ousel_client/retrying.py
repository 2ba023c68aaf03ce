"""When to retry, and how long to wait before each retry: exponential backoff, full jitter."""

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

from ousel_client.credentials import Secret
from ousel_client.errors import SERVER_ERRORS, ApiError, ConnectionFailed, OuselError
from ousel_client.exchange import Answer, Attempt, ClientClosed, Failure, Outcome, Request, Steps
from ousel_client.problems import error_from_answer

SLEEP_SECONDS_MAX: Final = 31_536_000.0  # a year; time.sleep fails with some centuries

_log: Final = logging.getLogger("ousel_client")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how long one call is retried. No attempt starts after `seconds_max`."""

    attempts_max: int = 8
    seconds_max: float = 60.0
    first_delay_seconds: float = 0.2
    delay_seconds_max: float = 10.0

    def __post_init__(self) -> None:
        """Refuse a policy that allows no attempt or has a negative time."""
        times = (self.seconds_max, self.first_delay_seconds, self.delay_seconds_max)
        if self.attempts_max < 1 or min(times) < 0:
            raise ValueError("A policy must allow at least one attempt, and no negative times.")

    def delay_seconds(self, attempt: int, random_share: float) -> float:
        """Return a random wait after this attempt. Its upper limit doubles with each attempt."""
        doubled = self.first_delay_seconds * 2.0 ** min(attempt - 1, 60)
        return random_share * min(doubled, self.delay_seconds_max)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSettings:
    """What the calls of a client share: its credential, and how to retry."""

    credential: Secret
    policy: RetryPolicy
    random_share: Callable[[], float] = random.random  # from 0 to 1
    seconds: Callable[[], float] = time.monotonic

    def without_retries(self) -> "CallSettings":
        """Return the same settings, but without retries."""
        return replace(self, policy=replace(self.policy, attempts_max=1))


def send_with_retries(
    settings: CallSettings, request: Request, delay_seconds: float = 0.0
) -> Steps[Answer]:
    """Return a successful answer, or raise the error that retrying did not resolve."""
    started_at = settings.seconds()
    in_doubt = False
    attempt = 0
    while True:
        attempt += 1
        outcome = yield Attempt(request, delay_seconds)
        if isinstance(outcome, Answer) and outcome.status < HTTPStatus.BAD_REQUEST:
            return outcome
        error = _error(outcome)
        in_doubt = in_doubt or _is_in_doubt(outcome)
        error.in_doubt, error.attempts = in_doubt, attempt
        delay_seconds = settings.policy.delay_seconds(attempt, settings.random_share())
        delay_seconds += asked_seconds(error)
        late = settings.seconds() - started_at + delay_seconds > settings.policy.seconds_max
        if late or attempt >= settings.policy.attempts_max or not _may_repeat(request, outcome):
            raise error
        log_retry(request, error, attempt, delay_seconds)


def is_closed(error: OuselError) -> bool:
    """Return whether the client is closed, so that no request can be sent any more."""
    return isinstance(error.__cause__, ClientClosed)


def asked_seconds(error: OuselError | None) -> float:
    """Return how many seconds the server asks to wait before the next attempt, at most a year."""
    seconds = error.retry_after_seconds if isinstance(error, ApiError) else None
    return min(seconds or 0.0, SLEEP_SECONDS_MAX)


def log_retry(
    request: Request,
    error: OuselError,
    attempt: int,
    delay_seconds: float,
    level: int = logging.INFO,
) -> None:
    """Log that another attempt follows this one."""
    _log.log(
        level,
        "%s %s: %s; attempt %d starts in %.2f s",
        request.method,
        request.path,
        error,
        attempt + 1,
        delay_seconds,
    )


def _error(outcome: Outcome) -> OuselError:
    if isinstance(outcome, Answer):
        return error_from_answer(outcome)
    error = ConnectionFailed(f"No answer: {type(outcome.error).__name__}: {outcome.error}")
    error.__cause__ = outcome.error
    return error


def _is_in_doubt(outcome: Outcome) -> bool:
    """Return whether the request may have taken effect.

    Either it was sent but not answered, or the answer is a 5xx.
    """
    if isinstance(outcome, Failure):
        return outcome.sent
    return outcome.status >= SERVER_ERRORS


def _may_repeat(request: Request, outcome: Outcome) -> bool:
    """Return whether the same request may be sent again."""
    if isinstance(outcome, Failure):
        if isinstance(outcome.error, ClientClosed):
            return False
        return request.repeatable or not outcome.sent
    if outcome.status == HTTPStatus.TOO_MANY_REQUESTS:
        return True
    return request.repeatable and outcome.status >= SERVER_ERRORS
