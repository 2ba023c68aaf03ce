"""Targets: the lowest or highest values that the results of a run may have."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from statistics import median
from typing import Final, Literal

import msgspec

from bench.cases import MeasuredLedger, Sample
from bench.mixed import TRANSFERS, MixedResult
from bench.pages import PageResult

BASELINE: Final = "pgbench"
EMPTY_CASE: Final = "empty endpoint 256"
FLUSH_CASE: Final = "flush of 4 KiB"

Samples = Mapping[str, Sequence[Sample]]  # by case, one per round
Relation = Literal["at least", "at most"]

_MICROS: Final = 1_000_000
_KILOBYTE: Final = 1_000


class Target(msgspec.Struct, frozen=True):
    """A value that must be at least or at most a bound."""

    name: str
    value: float
    relation: Relation
    bound: float
    # Why we do not claim the bound; such a target is listed apart.
    unclaimed_because: str = ""

    @property
    def is_met(self) -> bool:
        """Whether the value is within its bound."""
        if self.relation == "at least":
            return self.value >= self.bound
        return self.value <= self.bound


_MORE_THAN_PGBENCH: Final = (
    "pgbench needs no HTTP, no keys and no hash chains, and on a small machine the fastest round of"
    " a run may be more than 1.5 times as fast as the slowest."
)
_MORE_ROWS: Final = (
    "Each account that pays has rows and index pages of its own, so a batch writes more pages than"
    " for one hot account."
)
_SHARED_CORES: Final = (
    "The load generator and the database use part of the cores that the second worker would need."
)
_SAME_ANSWER: Final = (
    "Both are answered from the cache, so a 304 saves only the body, which is less than the noise."
)
_FAST_FLUSH: Final = (
    "On a disk that flushes in less than 0.1 ms, nearly all of the time is CPU time."
)
_NOTHING_SHARED: Final = (
    "A transfer that comes alone has the cost of a whole batch: tasks, statements and commit."
)
_SHORT_READS: Final = (
    "Without transfers, a read usually takes 0.5 to 2 ms. During transfers, it waits for the batch"
    " in progress and for a core. The table above has a target for the longest read instead."
)

# A case, the case with which its rate is compared, what the ratio must be at least, and why we do
# not claim this ("" if we do).
_RATES: Final = (
    ("postgresql hot 256", BASELINE, 2.2, _MORE_THAN_PGBENCH),
    ("postgresql spread 256", BASELINE, 2, _MORE_ROWS),
    ("sqlite hot 256", BASELINE, 2.4, _MORE_THAN_PGBENCH),
    ("sqlite spread 256", BASELINE, 1.8, _MORE_ROWS),
    ("postgresql spread 256, 2 workers", "postgresql spread 256", 1.25, _SHARED_CORES),
    ("postgresql hot 256", "reference fastapi hot 64", 10, ""),
    ("postgresql charge 256", EMPTY_CASE, 0.45, ""),
    ("sqlite charge 256", EMPTY_CASE, 0.6, ""),
    ("postgresql follow 256", EMPTY_CASE, 0.4, ""),
    ("sqlite follow 256", EMPTY_CASE, 0.4, ""),
    ("postgresql receipt 256", "postgresql charge 256", 0.5, ""),
    ("postgresql tile 256", "postgresql charge 256", 0.5, ""),
    ("sqlite receipt 256", "sqlite charge 256", 0.5, ""),
    ("sqlite tile 256", "sqlite charge 256", 0.5, ""),
    ("postgresql charge unchanged 256", "postgresql charge 256", 1, ""),
    ("sqlite charge unchanged 256", "sqlite charge 256", 1, _SAME_ANSWER),
)
# One transfer at a time: its engine, how long it takes relative to a flush plus an empty response,
# and the microseconds of CPU that the server spends, both at most.
_SINGLE_TRANSFERS: Final = (("postgresql", 3.0, 350.0), ("sqlite", 2.2, 250.0))

COMMAND_SECONDS_MAX: Final = {"ousel --help": 0.2, "ousel account show @partner000000": 0.35}

# Compared cases run next to each other, because a noisy machine changes within a minute.
COMPARED_CASES: Final = (
    "pgbench tpcb-like 8",
    "pgbench tpcb-like 32",
    "postgresql spread 256, 2 workers",
    "postgresql spread 256",
    "reference fastapi hot 64",
    "postgresql hot 256",
    EMPTY_CASE,
    "sqlite hot 256",
    "sqlite spread 256",
    "postgresql charge 256",
    "postgresql charge unchanged 256",
    "postgresql receipt 256",
    "postgresql tile 256",
    "sqlite charge 256",
    "sqlite charge unchanged 256",
    "sqlite receipt 256",
    "sqlite tile 256",
    "postgresql follow 256",
    "sqlite follow 256",
    "empty endpoint 1",
    FLUSH_CASE,
    "sqlite hot 1",
    "postgresql hot 1",
)


def rate(sample: Sample) -> float:
    """Return the answers per second."""
    return sample.load_result.rate


def case_targets(samples: Samples, baseline: str) -> Iterator[Target]:
    """Yield the targets whose cases were all measured."""
    for case, other, bound, unclaimed_because in _RATES:
        compared = baseline if other == BASELINE else other
        if {case, compared} <= samples.keys():
            name = f"{case}: rate, relative to {other}"
            ratio = _rate_ratio(samples[case], samples[compared], other)
            yield Target(name, ratio, "at least", bound, unclaimed_because)
    for engine, times_max, micros_max in _SINGLE_TRANSFERS:
        case = f"{engine} hot 1"
        if {case, FLUSH_CASE, "empty endpoint 1"} <= samples.keys():
            yield Target(
                f"{case}: median time, relative to the sum of a flush and an empty response",
                _single_transfer_time(samples, engine),
                "at most",
                times_max,
                _FAST_FLUSH,
            )
            micros = median(map(_cpu_micros, samples[case]))
            name = f"{case}: microseconds of the server's CPU"
            yield Target(name, micros, "at most", micros_max, _NOTHING_SHARED)


def page_targets(pages: Sequence[PageResult]) -> Iterator[Target]:
    """Yield the targets of the slowest and of the largest page."""
    if pages:
        slowest = max(pages, key=lambda each: each.p50_milliseconds)
        largest = max(pages, key=lambda each: each.first_visit_bytes)
        name = f"{slowest.engine}: milliseconds of the slowest page, {slowest.page}, median"
        yield Target(name, slowest.p50_milliseconds, "at most", 5)
        name = f"kilobytes of the largest page, {largest.page}, with its assets"
        yield Target(name, largest.first_visit_bytes / _KILOBYTE, "at most", 50)


def mixed_targets(mixed: Sequence[MixedResult]) -> Iterator[Target]:
    """Yield the targets of the reads that suffered most during transfers."""
    reads = [each for each in mixed if each.request != TRANSFERS]
    for engine in sorted({each.engine for each in reads}):
        own = [each for each in reads if each.engine == engine]
        worst = max(own, key=lambda each: each.p99_ratio)
        longest = max(own, key=lambda each: each.longest_milliseconds)
        during = "p99 of reads during transfers, relative to reads without transfers"
        name = f"{engine}: {during} ({worst.request})"
        yield Target(name, worst.p99_ratio, "at most", 5, _SHORT_READS)
        name = f"{engine}: milliseconds of the longest read during transfers ({longest.request})"
        yield Target(name, longest.longest_milliseconds, "at most", 100)


def process_targets(
    ledgers: Mapping[str, MeasuredLedger], commands: Mapping[str, float]
) -> Iterator[Target]:
    """Yield the targets of starting servers and commands."""
    for engine, ledger in ledgers.items():
        yield Target(f"{engine}: seconds to start", ledger.start_seconds, "at most", 0.5)
        yield Target(f"{engine}: megabytes when idle", ledger.idle_megabytes, "at most", 55)
    for command, seconds in commands.items():
        yield Target(f"{command}: seconds", seconds, "at most", COMMAND_SECONDS_MAX[command])


def unmeasured_cases(measured: Collection[str]) -> list[str]:
    """Return the cases that have a target but are not among those that were measured."""
    return sorted({case for case, *_ in _RATES} - set(measured))


def _rate_ratio(ones: Sequence[Sample], others: Sequence[Sample], compared: str) -> float:
    """Return the ratio of two cases' rates.

    Relative to pgbench, it is the ratio of the medians, as for all cases in the table of results.
    Other cases run one after the other in each round, so the median of the rounds' ratios is used.
    """
    if compared == BASELINE:
        return median(map(rate, ones)) / median(map(rate, others))
    return median(rate(one) / rate(other) for one, other in zip(ones, others, strict=True))


def _cpu_micros(sample: Sample) -> float:
    return sample.server_cpu_seconds / sample.load_result.total * _MICROS


def _single_transfer_time(samples: Samples, engine: str) -> float:
    """Return the time of one transfer, relative to a flush plus an empty response."""
    p50: Callable[[Sample], float] = lambda sample: sample.load_result.p50_seconds  # noqa: E731
    rounds = zip(
        samples[f"{engine} hot 1"], samples[FLUSH_CASE], samples["empty endpoint 1"], strict=True
    )
    return median(p50(transfer) / (p50(flush) + p50(empty)) for transfer, flush, empty in rounds)
