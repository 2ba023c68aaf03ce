"""Attempts: how often signing in failed, for an account, an address, and the two together.

Accounts that are asked for are counted too, by address: each costs as much as a password does.
"""

import hashlib
from math import ceil
from typing import Final

from ousel.database.port import Database, Transaction
from ousel.kernel.clock import MICROS_PER_SECOND, Clock
from ousel.kernel.errors import Refusal
from ousel.people import store
from ousel.people.audit import EventSource
from ousel.people.rules import (
    ACCOUNT_LIMIT,
    ADDRESS_LIMIT,
    PAIR_LIMIT,
    SIGN_UP_LIMIT,
    AttemptLimit,
    counted_address,
)

FAILED: Final = "Too many attempts failed."


class TooManyAttempts(Refusal):
    """Signing in failed, or an account was asked for, too often: for it, or from this address."""

    status = 429
    code = "too_many_attempts"
    title = "Too many attempts"
    cure = "Wait until the time that the page names, then try again."


class AttemptCounter:
    """Counts failures in the database, so that every process counts the same."""

    def __init__(self, database: Database, clock: Clock) -> None:
        """Count in this database."""
        self._database = database
        self._clock = clock

    async def check(self, name: str, source: EventSource) -> None:
        """Refuse a further attempt where too many have failed, before any work is done for it."""
        limits = _limits(name, source)
        failures = await self._database.read(
            lambda transaction: store.failures_of(transaction, limits)
        )
        for subject, (count, since) in failures.items():
            self._check_one(limits[subject], count + 1, since, FAILED)

    async def count_attempt(self, transaction: Transaction, name: str, source: EventSource) -> None:
        """Count an attempt as failed until it is given back; refuse one too many.

        The count locks its rows, so that of many attempts at once no more pass than the limit.
        """
        await self._count(transaction, _limits(name, source), FAILED)

    async def count_sign_up(self, source: EventSource) -> None:
        """Count an account that is asked for, whatever comes of it; refuse one too many."""
        limits = {f"sign-ups:{counted_address(source.address)}": SIGN_UP_LIMIT}
        await self._database.write(
            lambda transaction: self._count(
                transaction, limits, "Too many accounts were asked for from your address."
            )
        )

    async def forgive(self, transaction: Transaction, name: str, source: EventSource) -> None:
        """Let an attempt that succeeded not count, nor those before it from the same address."""
        await store.uncount_failure(transaction, _limits(name, source))
        await store.forget_failures(transaction, _pair(name, source))

    async def sweep(self) -> int:
        """Forget what no limit counts any more; return of how many subjects."""
        limits = (PAIR_LIMIT, ADDRESS_LIMIT, ACCOUNT_LIMIT, SIGN_UP_LIMIT)
        longest = max(limit.window_seconds for limit in limits)
        before = self._clock() - longest * MICROS_PER_SECOND
        return await self._database.write(
            lambda transaction: store.sweep_failures(transaction, before)
        )

    async def _count(
        self, transaction: Transaction, limits: dict[str, AttemptLimit], reason: str
    ) -> None:
        now = self._clock()
        for subject, limit in sorted(limits.items()):
            window_start = now - limit.window_seconds * MICROS_PER_SECOND
            await store.count_failure(transaction, subject, now, window_start)
        for subject, (count, since) in (await store.failures_of(transaction, limits)).items():
            self._check_one(limits[subject], count, since, reason)

    def _check_one(self, limit: AttemptLimit, count: int, since: int, reason: str) -> None:
        left = since + limit.window_seconds * MICROS_PER_SECOND - self._clock()
        if count > limit.failures and left > 0:
            seconds = ceil(left / MICROS_PER_SECOND)
            raise TooManyAttempts(
                f"{reason} Try again in {_duration_text(seconds)}.",
                retry_after_seconds=seconds,
            )


def _limits(name: str, source: EventSource) -> dict[str, AttemptLimit]:
    return {
        _pair(name, source): PAIR_LIMIT,
        f"address:{counted_address(source.address)}": ADDRESS_LIMIT,
        f"account:{_hashed_name(name)}": ACCOUNT_LIMIT,
    }


def _pair(name: str, source: EventSource) -> str:
    return f"pair:{_hashed_name(name)}:{counted_address(source.address)}"


def _hashed_name(name: str) -> str:
    """Return what is counted by: now and then somebody types a password where the name belongs."""
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()


def _duration_text(seconds: int) -> str:
    count, unit = (ceil(seconds / 60), "minute") if seconds > 60 else (seconds, "second")  # noqa: PLR2004 - a minute
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
