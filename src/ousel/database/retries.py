"""The one retry policy: which transactions are run again, how often and after which pause."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from ousel.kernel.errors import DatabaseUnavailable, OutcomeUnknown

ATTEMPTS_MAX: Final = 5
UNKNOWN_OUTCOMES_MAX: Final = 5
BACKOFF_SECONDS: Final = 0.02
BACKOFF_SECONDS_MAX: Final = 1.0
RETRY_SECONDS_MAX: Final = 10.0

Result = TypeVar("Result")


class TransientFailure(Exception):
    """A transaction failed and was certainly not committed; it may be tried again."""

    def __init__(self, refusal: DatabaseUnavailable) -> None:
        """Store the refusal that the caller gets if the last attempt fails as well."""
        super().__init__(refusal.detail)
        self.refusal = refusal


class RowsLocked(DatabaseUnavailable):
    """Other transactions kept rows locked for so long that the transaction gave up."""

    def __init__(self) -> None:
        """Ask the caller to retry soon."""
        super().__init__("Other transactions keep rows locked.", retry_after_seconds=1)


async def with_retries(
    attempt: Callable[[bool], Awaitable[Result]],
    *,
    resolves_unknown_commit: bool = False,
    repeats_locked: bool = True,
) -> Result:
    """Return the attempt's result; repeat the attempt if that is safe.

    After a transient failure, nothing was committed, so every attempt may be repeated. After a
    commit whose outcome is unknown, only an attempt that can find out the outcome is repeated: it
    is called with True, and finds what the earlier attempt has written. If it cannot be completed,
    the caller gets OutcomeUnknown, whatever the error was. An attempt that failed only because rows
    were locked may be repeated more often than others. A caller that waits for locked rows in its
    own way sets `repeats_locked` to False.
    """
    time = asyncio.get_running_loop().time
    unknown: list[OutcomeUnknown] = []
    failures, last_start = 0, time() + RETRY_SECONDS_MAX
    while True:
        try:
            return await attempt(bool(unknown))
        except OutcomeUnknown as error:
            unknown.append(error)
            if not resolves_unknown_commit or len(unknown) == UNKNOWN_OUTCOMES_MAX:
                raise
            failures, last_start = 0, time() + RETRY_SECONDS_MAX
        except Exception as error:
            failures += 1
            is_last = time() > last_start
            if is_last or not _is_retried(error, failures, repeats_locked or bool(unknown)):
                if unknown:
                    raise unknown[-1] from error
                if isinstance(error, TransientFailure):
                    raise error.refusal from error
                raise
            await asyncio.sleep(_backoff_seconds(failures))


def _is_retried(error: Exception, failures: int, repeats_locked: bool) -> bool:  # noqa: FBT001
    if not isinstance(error, TransientFailure):
        return False
    if isinstance(error.refusal, RowsLocked):
        return repeats_locked
    return failures < ATTEMPTS_MAX


def _backoff_seconds(failures: int) -> float:
    pause_seconds: float = min(BACKOFF_SECONDS * 2**failures, BACKOFF_SECONDS_MAX)
    return pause_seconds * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
