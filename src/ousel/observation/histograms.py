"""Figures that count what happens: a few tenths of a microsecond each, on the event loop alone.

A client library's own counters take a lock and walk through their buckets, which costs more than
all the rest of an observation; one thread writes these, so a plain addition is enough.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate


class Histogram:
    """How often a value was how large."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """Count values up to each of these bounds, which rise, and above the last."""
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def buckets(self) -> Iterator[tuple[str, float]]:
        """Yield each bound, and how many values do not exceed it."""
        bounds = [*map(repr, map(float, self.bounds)), "+Inf"]
        return zip(bounds, accumulate(list(self.counts)), strict=True)


class RouteMetrics:
    """What happened on one route."""

    __slots__ = ("durations", "method", "path", "statuses")

    def __init__(self, method: str, path: str, bounds: Sequence[float]) -> None:
        """Begin with nothing."""
        self.method = method
        self.path = path
        self.durations = Histogram(bounds)
        self.statuses: dict[int, int] = {}

    def count(self, status: int, seconds: float) -> None:
        """Count an answer."""
        self.durations.observe(seconds)
        self.statuses[status] = self.statuses.get(status, 0) + 1
