"""When to try again, and how long to wait before: backoff with full jitter, within bounds."""

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

from ousel_client.credentials import Secret
from ousel_client.errors import SERVER_ERRORS, ApiError, ConnectionFailed, OuselError
from ousel_client.exchange import Answer, Attempt, Failure, Outcome, Request, Steps
from ousel_client.problems import error_of

_log: Final = logging.getLogger("ousel_client")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how long one call may try: no attempt begins after `seconds_max`."""

    attempts_max: int = 8
    seconds_max: float = 60.0
    first_delay_seconds: float = 0.2
    delay_seconds_max: float = 10.0

    def __post_init__(self) -> None:
        """Refuse a policy under which nothing would be tried."""
        if self.attempts_max < 1 or min(self.seconds_max, self.first_delay_seconds) < 0:
            raise ValueError("A policy allows one attempt at least, and no time before now.")

    def delay_seconds(self, attempt: int, chance: float) -> float:
        """Return the wait after this attempt: anything from nothing to twice as long as before."""
        doubled = self.first_delay_seconds * 2.0 ** min(attempt - 1, 60)
        return chance * min(doubled, self.delay_seconds_max)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """How a client behaves: whose credential it shows, and how patient it is."""

    credential: Secret
    policy: RetryPolicy
    chance: Callable[[], float] = random.random  # from 0 to 1
    seconds: Callable[[], float] = time.monotonic

    def once(self) -> "Conduct":
        """Return the same conduct without any second attempt."""
        return replace(self, policy=replace(self.policy, attempts_max=1))


def answered(conduct: Conduct, request: Request, delay_seconds: float = 0.0) -> Steps[Answer]:
    """Return the answer that says yes; raise what says no, and what retrying did not cure."""
    begun = conduct.seconds()
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
        asked_seconds = error.retry_after_seconds if isinstance(error, ApiError) else None
        delay_seconds = conduct.policy.delay_seconds(attempt, conduct.chance())
        delay_seconds += asked_seconds or 0.0
        late = conduct.seconds() - begun + delay_seconds > conduct.policy.seconds_max
        if late or attempt >= conduct.policy.attempts_max or not _may_repeat(request, outcome):
            raise error
        _log.info(
            "%s %s: %s; attempt %d follows in %.2f s",
            request.method,
            request.path,
            error,
            attempt + 1,
            delay_seconds,
        )


def _error(outcome: Outcome) -> OuselError:
    if isinstance(outcome, Answer):
        return error_of(outcome)
    error = ConnectionFailed(f"No answer came: {type(outcome.error).__name__}: {outcome.error}")
    error.__cause__ = outcome.error
    return error


def _is_in_doubt(outcome: Outcome) -> bool:
    """Say whether the request may have had its effect all the same."""
    if isinstance(outcome, Failure):
        return outcome.sent
    return outcome.status >= SERVER_ERRORS


def _may_repeat(request: Request, outcome: Outcome) -> bool:
    """Say whether the same request may be sent again: never where it must be changed first."""
    if isinstance(outcome, Failure):
        return request.repeatable or not outcome.sent
    if outcome.status == HTTPStatus.TOO_MANY_REQUESTS:
        return True
    return request.repeatable and outcome.status >= SERVER_ERRORS
