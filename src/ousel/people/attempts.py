"""Attempts: how often signing in failed, for an account, an address, and the two together."""

from math import ceil

from ousel.database.port import Database, Transaction
from ousel.kernel.clock import MICROS_PER_SECOND, Clock
from ousel.kernel.errors import Refusal
from ousel.people import store
from ousel.people.audit import Trace, record
from ousel.people.rules import ACCOUNT_LIMIT, ADDRESS_LIMIT, PAIR_LIMIT, AttemptLimit


class TooManyAttempts(Refusal):
    """Signing in failed too often, for this account or from this address."""

    status = 429
    code = "too_many_attempts"
    title = "Too many attempts"
    cure = "Wait until the time that the page names, then try again."


class Attempts:
    """Counts failures in the database, so that every process counts the same."""

    def __init__(self, database: Database, clock: Clock) -> None:
        """Count in this database."""
        self._database = database
        self._clock = clock

    async def check(self, name: str, trace: Trace) -> None:
        """Refuse a further attempt where too many have failed."""
        limits = _limits(name, trace)
        failures = await self._database.read(
            lambda transaction: store.failures_of(transaction, limits)
        )
        now = self._clock()
        for subject, (count, since) in failures.items():
            limit = limits[subject]
            left = since + limit.window_seconds * MICROS_PER_SECOND - now
            if count >= limit.failures and left > 0:
                seconds = ceil(left / MICROS_PER_SECOND)
                raise TooManyAttempts(
                    f"Too many attempts failed. Try again in {_spoken(seconds)}.",
                    retry_after_seconds=seconds,
                )

    async def failed(self, name: str, trace: Trace, account_id: str | None) -> None:
        """Count a failure, and tell the account's holder, where there is one."""
        now = self._clock()

        async def work(transaction: Transaction) -> None:
            for subject, limit in sorted(_limits(name, trace).items()):
                window_start = now - limit.window_seconds * MICROS_PER_SECOND
                await store.count_failure(transaction, subject, now, window_start)
            if account_id is not None:
                await record(transaction, account_id, "sign_in_failed", trace, self._clock)

        await self._database.write(work)


def _limits(name: str, trace: Trace) -> dict[str, AttemptLimit]:
    return {
        f"pair:{name[:300]}:{trace.address}": PAIR_LIMIT,
        f"address:{trace.address}": ADDRESS_LIMIT,
        f"account:{name[:300]}": ACCOUNT_LIMIT,
    }


def _spoken(seconds: int) -> str:
    minutes = ceil(seconds / 60)
    if seconds < 60:  # noqa: PLR2004 - a minute
        return f"{seconds} seconds"
    return "1 minute" if minutes == 1 else f"{minutes} minutes"
