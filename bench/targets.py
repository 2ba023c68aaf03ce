"""Targets: what the results of a run must be at least, or at most."""

from collections.abc import Callable, Iterator, Mapping, Sequence
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

    @property
    def is_met(self) -> bool:
        """Whether the value is within its bound."""
        if self.relation == "at least":
            return self.value >= self.bound
        return self.value <= self.bound


# What the rate of one case is relative to that of another, at least.
_RATES: Final = (
    ("PostgreSQL, hot, 256 connections, relative to pgbench", "postgresql hot 256", BASELINE, 2.2),
    (
        "PostgreSQL, spread, 256 connections, relative to pgbench",
        "postgresql spread 256",
        BASELINE,
        2,
    ),
    ("SQLite, hot, 256 connections, relative to pgbench", "sqlite hot 256", BASELINE, 2.4),
    ("SQLite, spread, 256 connections, relative to pgbench", "sqlite spread 256", BASELINE, 1.8),
    (
        "PostgreSQL, spread, two workers, relative to one",
        "postgresql spread 256, 2 workers",
        "postgresql spread 256",
        1.25,
    ),
    (
        "PostgreSQL, hot, relative to the reference application",
        "postgresql hot 256",
        "reference fastapi hot 64",
        10,
    ),
    ("PostgreSQL: polls, relative to empty responses", "postgresql charge 256", EMPTY_CASE, 0.45),
    ("SQLite: polls, relative to empty responses", "sqlite charge 256", EMPTY_CASE, 0.6),
    (
        "PostgreSQL: following, relative to empty responses",
        "postgresql follow 256",
        EMPTY_CASE,
        0.4,
    ),
    ("SQLite: following, relative to empty responses", "sqlite follow 256", EMPTY_CASE, 0.4),
    (
        "PostgreSQL: polls answered 304, relative to polls answered 200",
        "postgresql charge unchanged 256",
        "postgresql charge 256",
        1,
    ),
    (
        "SQLite: polls answered 304, relative to polls answered 200",
        "sqlite charge unchanged 256",
        "sqlite charge 256",
        1,
    ),
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
    "sqlite charge 256",
    "sqlite charge unchanged 256",
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
    for name, case, other, bound in _RATES:
        compared = baseline if other == BASELINE else other
        if {case, compared} <= samples.keys():
            pairs = zip(samples[case], samples[compared], strict=True)
            ratio = median(rate(one) / rate(two) for one, two in pairs)
            yield Target(f"Rate: {name}", ratio, "at least", bound)
    for engine, times_max, micros_max in _SINGLE_TRANSFERS:
        if {f"{engine} hot 1", FLUSH_CASE, "empty endpoint 1"} <= samples.keys():
            yield Target(
                f"{engine}, one connection: median time, relative to a flush and an empty response",
                _single_transfer_time(samples, engine),
                "at most",
                times_max,
            )
            yield Target(
                f"{engine}, one connection: microseconds of the server's CPU per transfer",
                median(map(_cpu_micros, samples[f"{engine} hot 1"])),
                "at most",
                micros_max,
            )


def page_targets(pages: Sequence[PageResult]) -> Iterator[Target]:
    """Yield the targets of the slowest and of the largest page."""
    if pages:
        slowest = max(pages, key=lambda each: each.p50_milliseconds)
        largest = max(pages, key=lambda each: each.first_visit_bytes)
        yield Target(
            f"The slowest page, {slowest.page} on {slowest.engine}: milliseconds, median",
            slowest.p50_milliseconds,
            "at most",
            5,
        )
        yield Target(
            f"The largest page, {largest.page}, with its assets: kilobytes",
            largest.first_visit_bytes / _KILOBYTE,
            "at most",
            50,
        )


def mixed_targets(mixed: Sequence[MixedResult]) -> Iterator[Target]:
    """Yield the targets of the reads that suffered most beside transfers."""
    reads = [each for each in mixed if each.request != TRANSFERS]
    for engine in sorted({each.engine for each in reads}):
        own = [each for each in reads if each.engine == engine]
        worst = max(own, key=lambda each: each.p99_ratio)
        longest = max(own, key=lambda each: each.longest_milliseconds)
        yield Target(
            f"{engine}, reads beside transfers: p99 relative to alone ({worst.request})",
            worst.p99_ratio,
            "at most",
            5,
        )
        yield Target(
            f"{engine}, reads beside transfers: milliseconds of the longest ({longest.request})",
            longest.longest_milliseconds,
            "at most",
            100,
        )


def process_targets(
    ledgers: Mapping[str, MeasuredLedger], commands: Mapping[str, float]
) -> Iterator[Target]:
    """Yield the targets of starting servers and commands."""
    for engine, ledger in ledgers.items():
        yield Target(f"{engine}: seconds to start", ledger.start_seconds, "at most", 0.5)
        yield Target(f"{engine}: megabytes when idle", ledger.idle_megabytes, "at most", 55)
    for command, seconds in commands.items():
        yield Target(f"{command}: seconds", seconds, "at most", COMMAND_SECONDS_MAX[command])


def _cpu_micros(sample: Sample) -> float:
    return sample.server_cpu_seconds / sample.load_result.total * _MICROS


def _single_transfer_time(samples: Samples, engine: str) -> float:
    """Return the time of one transfer, relative to a flush plus an empty response."""
    p50: Callable[[Sample], float] = lambda sample: sample.load_result.p50_seconds  # noqa: E731
    rounds = zip(
        samples[f"{engine} hot 1"], samples[FLUSH_CASE], samples["empty endpoint 1"], strict=True
    )
    return median(p50(transfer) / (p50(flush) + p50(empty)) for transfer, flush, empty in rounds)
