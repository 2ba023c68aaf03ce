"""Rate limits: a bucket of requests for each key or token, refilled steadily."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from math import ceil
from time import monotonic
from typing import Final

import msgspec

from ousel.http.messages import RawHeader
from ousel.kernel.errors import RateLimited
from ousel.kernel.settings import RateLimit

BUCKETS_MAX: Final = 100_000


class _Bucket(msgspec.Struct, gc=False):
    tokens: float
    filled_at: float


class RateLimiter:
    """Counts the requests of each key or token in this process."""

    def __init__(self, limit: RateLimit, seconds: Callable[[], float] = monotonic) -> None:
        """Allow this many requests per period; `seconds` is the clock."""
        self._limit = limit
        self._seconds = seconds
        self._rate = limit.requests / limit.period_seconds
        self._buckets: OrderedDict[Hashable, _Bucket] = OrderedDict()
        policy = f'"default";q={limit.requests};w={limit.period_seconds}'
        self._policy = (b"ratelimit-policy", policy.encode())

    def take(self, key: Hashable) -> None:
        """Take one request from the key's bucket, or refuse if it is empty."""
        now = self._seconds()
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(self._limit.requests, now)
            if len(self._buckets) > BUCKETS_MAX:
                self._buckets.popitem(last=False)
        else:
            refilled = bucket.tokens + (now - bucket.filled_at) * self._rate
            bucket.tokens = min(refilled, self._limit.requests)
            bucket.filled_at = now
            self._buckets.move_to_end(key)
        if bucket.tokens < 1:
            wait_seconds = ceil((1 - bucket.tokens) / self._rate)
            raise RateLimited(
                f"This key or token may make {self._limit.requests} requests "
                f"in {self._limit.period_seconds} s.",
                retry_after_seconds=max(wait_seconds, 1),
            )
        bucket.tokens -= 1

    def headers(self, key: Hashable) -> tuple[RawHeader, ...]:
        """Return headers that say how many requests are left, and when the bucket is full again."""
        tokens = self._buckets[key].tokens
        full_seconds = ceil((self._limit.requests - tokens) / self._rate)
        left = f'"default";r={int(tokens)};t={full_seconds}'
        return (self._policy, (b"ratelimit", left.encode()))
