"""Scrapes: the metrics that running servers publish at their admin ports."""

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Final

import msgspec

from ousel.kernel.errors import OperatorError

SCRAPE_SECONDS_MAX: Final = 5.0

Labels = frozenset[tuple[str, str]]


class Scrape(msgspec.Struct, frozen=True):
    """The samples of all processes together, at one moment."""

    seconds: float
    samples: Mapping[str, Mapping[Labels, float]]

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples that have these labels."""
        wanted = set(labels.items())
        return sum(value for found, value in self.samples.get(name, {}).items() if wanted <= found)

    def mean(self, name: str) -> float:
        """Return the mean of the processes that have this metric, which has no other labels."""
        return fmean(self.samples[name].values())

    def totals_by(self, name: str, label: str) -> dict[str, float]:
        """Return a metric's sum for each value of one label."""
        sums: dict[str, float] = {}
        for found, value in self.samples.get(name, {}).items():
            key = dict(found)[label]
            sums[key] = sums.get(key, 0.0) + value
        return sums


class Interval(msgspec.Struct, frozen=True):
    """What happened between two scrapes."""

    before: Scrape
    after: Scrape

    def rate(self, name: str, **labels: str) -> float:
        """Return how much a counter grew per second."""
        grown = self.after.total(name, **labels) - self.before.total(name, **labels)
        return max(grown, 0.0) / self._seconds  # a restarted process counts from zero again

    def rates(self, name: str, label: str) -> dict[str, float]:
        """Return the rate for each value of a label whose counter grew, the largest first."""
        before = self.before.totals_by(name, label)
        grown = {
            key: (value - before.get(key, 0.0)) / self._seconds
            for key, value in self.after.totals_by(name, label).items()
            if value > before.get(key, 0.0)
        }
        return dict(sorted(grown.items(), key=lambda each: -each[1]))

    def mean(self, name: str) -> float | None:
        """Return the mean of what a histogram observed."""
        count = self.rate(f"{name}_count")
        return self.rate(f"{name}_sum") / count if count else None

    def quantile(self, name: str, quantile: float) -> float | None:
        """Return a quantile of what a histogram observed, as precisely as its buckets allow."""
        before = self.before.totals_by(f"{name}_bucket", "le")
        after = self.after.totals_by(f"{name}_bucket", "le")
        grown = {float(bound): count - before.get(bound, 0.0) for bound, count in after.items()}
        return quantile_of(sorted(grown.items()), quantile)

    @property
    def _seconds(self) -> float:
        return self.after.seconds - self.before.seconds


def quantile_of(buckets: Sequence[tuple[float, float]], quantile: float) -> float | None:
    """Return the value below which this share of the values lies, interpolated within a bucket.

    Each bucket is an upper bound with the number of values up to it. The last bound is infinite;
    for values beyond the last finite bound, that bound is returned.
    """
    if not buckets or buckets[-1][1] <= 0:
        return None
    rank = quantile * buckets[-1][1]
    for (low, below), (high, up_to) in pairwise([(0.0, 0.0), *buckets]):
        if up_to >= rank:
            if high == float("inf"):
                return low
            return low + (high - low) * (rank - below) / (up_to - below)
    return None


def scrape(addresses: Iterable[str]) -> Scrape:
    """Return the metrics of the servers at these URLs; end the command if one does not answer."""
    from prometheus_client.parser import text_string_to_metric_families

    samples: dict[str, dict[Labels, float]] = {}
    for process, address in enumerate(addresses):
        try:
            families = list(text_string_to_metric_families(_text(address)))
        except ValueError:
            raise OperatorError(
                f"{address}/metrics does not answer with Prometheus metrics"
            ) from None
        for family in families:
            for sample in family.samples:
                labels = frozenset((sample.labels | {"process": str(process)}).items())
                samples.setdefault(sample.name, {})[labels] = sample.value
    return Scrape(time.monotonic(), samples)


def _text(address: str) -> str:
    import urllib.request
    from http.client import HTTPException

    if not address.startswith(("http://", "https://")):
        raise OperatorError(f"{address} is not an address such as http://127.0.0.1:9464")
    url = f"{address}/metrics"
    try:
        with urllib.request.urlopen(url, timeout=SCRAPE_SECONDS_MAX) as answer:  # noqa: S310 - http
            text: str = answer.read().decode()
    except (OSError, HTTPException, ValueError):
        raise OperatorError(  # `ousel top` must leave its screen before the line is printed
            f"no metrics at {url}: is the server running with an admin port?"
        ) from None
    return text
