"""A check that two collections hold the same items, with a fixed amount of memory.

Each item of one collection adds its hash to one of many sums, and each item of the other
collection subtracts its hash again. If every sum ends at zero, the collections are equal,
unless 64-bit hashes cancel out by chance. The sums that are not zero show roughly which items to
look at.
"""

from collections.abc import Hashable
from typing import Final

BUCKETS: Final = 1_024


class BucketSums:
    """Compares two collections whose items arrive in any order."""

    def __init__(self) -> None:
        """Start with two empty collections."""
        self._sums = [0] * BUCKETS

    def add(self, item: Hashable) -> None:
        """Count an item of the first collection."""
        number = hash(item)
        self._sums[number % BUCKETS] += number

    def subtract(self, item: Hashable) -> None:
        """Count an item of the second collection."""
        number = hash(item)
        self._sums[number % BUCKETS] -= number

    @property
    def is_balanced(self) -> bool:
        """Return whether both collections hold the same items."""
        return not any(self._sums)

    def may_mismatch(self, item: Hashable) -> bool:
        """Return whether the item is in a bucket that is not balanced."""
        return self._sums[hash(item) % BUCKETS] != 0
