"""Limits on how many callers do the same thing at the same time."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final
from weakref import WeakValueDictionary

from ousel.kernel.errors import RateLimited

SEARCHES_PER_ACCOUNT_MAX: Final = 4


class ConcurrencyLimit:
    """Counts what is in progress in this process, in total and for each holder.

    A holder is whatever shares one limit, such as an account or a network address.
    """

    def __init__(self, *, total_max: int | None = None, holder_max: int) -> None:
        """Begin with nothing in progress."""
        self._total_max = total_max
        self._holder_max = holder_max
        self._total = 0
        self._counts: Counter[str] = Counter()

    def is_reached(self, holder: str) -> bool:
        """Return whether this holder must wait until something has ended."""
        return self._total == self._total_max or self._counts[holder] == self._holder_max

    @contextmanager
    def hold(self, holder: str) -> Iterator[bool]:
        """Count this block unless the limit is reached; yield whether it was counted."""
        if self.is_reached(holder):
            yield False
            return
        self._total += 1
        self._counts[holder] += 1
        try:
            yield True
        finally:
            self._total -= 1
            self._counts[holder] -= 1
            if not self._counts[holder]:
                del self._counts[holder]


class SearchTurns:
    """Lets long searches, which read many rows in small steps, take turns.

    Only one step runs at a time, and other requests run in between. The searches of one account
    take turns among themselves, and only the one whose turn it is competes with other accounts. So
    the searches of one account together get no more time than a single one.
    """

    def __init__(self) -> None:
        """Begin without searches."""
        self._limit = ConcurrencyLimit(holder_max=SEARCHES_PER_ACCOUNT_MAX)
        self._step_lock = asyncio.Lock()
        self._account_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def is_reached(self, account_id: str) -> bool:
        """Return whether the account has as many long searches as it may have."""
        return self._limit.is_reached(account_id)

    def check(self, account_id: str) -> None:
        """Refuse to begin a search that may become long, if the limit is reached."""
        if self.is_reached(account_id):
            raise _too_many_searches()

    @contextmanager
    def search(self, account_id: str, *, has_limit: bool = True) -> Iterator[None]:
        """Count this block as a long search; refuse it beyond the limit, if it has one."""
        with self._limit.hold(account_id) as is_accepted:
            if has_limit and not is_accepted:
                raise _too_many_searches()
            yield

    @asynccontextmanager
    async def step(self, account_id: str) -> AsyncIterator[None]:
        """Wait until the account may take a step, which is this block."""
        lock = self._account_locks.setdefault(account_id, asyncio.Lock())
        async with lock, self._step_lock:
            await asyncio.sleep(0)  # let other requests run first: on SQLite, reads never suspend
            yield


def _too_many_searches() -> RateLimited:
    return RateLimited(
        f"An account may run at most {SEARCHES_PER_ACCOUNT_MAX} long searches at the same time.",
        retry_after_seconds=1,
    )
