"""Bucket sums show whether two collections contain the same items, in any order."""

import random

from ousel.ledger.bucket_sums import BucketSums

ITEMS = [(f"tr_{number}", number) for number in range(5_000)]


def test_equal_collections_are_balanced() -> None:
    """The order does not matter."""
    sums = BucketSums()
    for item in ITEMS:
        sums.add(item)
    for item in random.sample(ITEMS, len(ITEMS)):
        sums.subtract(item)

    assert sums.is_balanced
    assert not any(sums.may_mismatch(item) for item in ITEMS)


def test_a_missing_item_and_a_repeated_one_are_found() -> None:
    """Both are among the few items that are then compared one by one."""
    sums = BucketSums()
    missing, repeated = ITEMS[17], ITEMS[4_711]
    for item in [*ITEMS, repeated]:
        sums.add(item)
    for item in ITEMS:
        if item != missing:
            sums.subtract(item)

    assert not sums.is_balanced
    assert sums.may_mismatch(missing)
    assert sums.may_mismatch(repeated)
    assert sum(sums.may_mismatch(item) for item in ITEMS) < 100
