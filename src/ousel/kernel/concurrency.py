"""Limits on how many callers do the same thing at the same time."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


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
