"""Results: medians over the rounds with their range, and the targets that they must meet."""

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final, Literal

import msgspec

from bench.cases import BenchEnvironment, Sample

BASELINE: Final = "pgbench"
EMPTY_CASE: Final = "empty endpoint 256"
FLUSH_CASE: Final = "flush of 4 KiB"
# Compared cases run next to each other, because a noisy machine changes within a minute.
COMPARED_CASES: Final = (
    "pgbench tpcb-like 8",
    "pgbench tpcb-like 32",
    "postgresql spread 256",
    "reference fastapi hot 64",
    "postgresql hot 256",
    EMPTY_CASE,
    "sqlite hot 256",
    "postgresql charge 256",
    "postgresql charge unchanged 256",
    "sqlite charge 256",
    "sqlite charge unchanged 256",
    "postgresql follow 256",
    "sqlite follow 256",
    "empty endpoint 1",
    FLUSH_CASE,
    "sqlite hot 1",
)

_MICROS: Final = 1_000_000
_MILLIS: Final = 1_000


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the results table."""

    name: str
    ratio: float  # relative to the best pgbench
    ratio_low: float
    ratio_high: float
    rate: float
    p50_milliseconds: float
    p99_milliseconds: float
    server_cpu_micros: float
    database_cpu_micros: float
    client_cpu_micros: float


Samples = dict[str, list[Sample]]  # by case, one per round


class Target(msgspec.Struct, frozen=True):
    """A value that must be at least or at most a bound."""

    name: str
    value: float
    relation: Literal["at least", "at most"]
    bound: float

    @property
    def is_met(self) -> bool:
        """Whether the value is within its bound."""
        if self.relation == "at least":
            return self.value >= self.bound
        return self.value <= self.bound


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a run, and the machine it ran on."""

    measured_at: str
    seconds: float
    rounds: int
    processor: str
    cores: int
    python: str
    postgresql: str
    results: list[Result]
    targets: list[Target]


def make_report(stage: BenchEnvironment, samples: Samples, seconds: float, rounds: int) -> Report:
    """Return the report of a run, with the best median of pgbench as 1."""
    medians = {name: median(map(_rate, runs)) for name, runs in samples.items()}
    baseline = max(
        (name for name in medians if name.startswith(BASELINE)), key=lambda name: medians[name]
    )
    return Report(
        measured_at=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        seconds=seconds,
        rounds=rounds,
        processor=_processor(),
        cores=os.cpu_count() or 0,
        python=platform.python_version(),
        postgresql=stage.postgres.version,
        results=[_result(name, runs, medians[baseline]) for name, runs in samples.items()],
        targets=[*_make_targets(samples, baseline), *_process_targets(stage)],
    )


def write(report: Report, folder: Path) -> Path:
    """Write the report as JSON, and return its path."""
    path = folder / f"results-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    return path


def _result(name: str, runs: list[Sample], baseline: float) -> Result:
    rates = [_rate(run) for run in runs]
    done = sum(run.load_result.total for run in runs)
    return Result(
        name=name,
        ratio=median(rates) / baseline,
        ratio_low=min(rates) / baseline,
        ratio_high=max(rates) / baseline,
        rate=median(rates),
        p50_milliseconds=median(run.load_result.p50_seconds for run in runs) * _MILLIS,
        p99_milliseconds=median(run.load_result.p99_seconds for run in runs) * _MILLIS,
        server_cpu_micros=sum(run.server_cpu_seconds for run in runs) / done * _MICROS,
        database_cpu_micros=sum(run.database_cpu_seconds for run in runs) / done * _MICROS,
        client_cpu_micros=sum(run.load_result.client_cpu_seconds for run in runs) / done * _MICROS,
    )


def _make_targets(samples: Samples, baseline: str) -> list[Target]:
    """Return the targets whose cases were all measured."""
    targets = []
    for make in _TARGETS:
        try:
            targets.append(make(samples, baseline))
        except KeyError:  # a case that this run left out
            continue
    return targets


def _rate(sample: Sample) -> float:
    return sample.load_result.rate


def _cpu(sample: Sample) -> float:
    return sample.server_cpu_seconds / sample.load_result.total


def _median_ratio(
    samples: Samples, name: str, other: str, value: Callable[[Sample], float] = _rate
) -> float:
    """Return the median ratio of two cases, each compared within the same round."""
    pairs = zip(samples[name], samples[other], strict=True)
    return median(value(one) / value(two) for one, two in pairs)


def _single_transfer_time(samples: Samples) -> float:
    """Return the time of one transfer on SQLite, relative to a flush plus an empty response."""
    rounds = zip(
        samples["sqlite hot 1"], samples[FLUSH_CASE], samples["empty endpoint 1"], strict=True
    )
    return median(
        transfer.load_result.p50_seconds
        / (flush.load_result.p50_seconds + empty.load_result.p50_seconds)
        for transfer, flush, empty in rounds
    )


_TARGETS: Final[tuple[Callable[[Samples, str], Target], ...]] = (
    lambda samples, baseline: Target(
        "PostgreSQL, hot, 256 connections: rate relative to pgbench",
        _median_ratio(samples, "postgresql hot 256", baseline),
        "at least",
        1.5,
    ),
    lambda samples, baseline: Target(
        "PostgreSQL, spread, 256 connections: rate relative to pgbench",
        _median_ratio(samples, "postgresql spread 256", baseline),
        "at least",
        1.3,
    ),
    lambda samples, _: Target(
        "PostgreSQL, hot, 256 connections: rate relative to the reference application",
        _median_ratio(samples, "postgresql hot 256", "reference fastapi hot 64"),
        "at least",
        10,
    ),
    lambda samples, baseline: Target(
        "SQLite, hot, 256 connections: rate relative to pgbench",
        _median_ratio(samples, "sqlite hot 256", baseline),
        "at least",
        1.7,
    ),
    lambda samples, _: Target(
        "PostgreSQL: CPU per transfer, relative to an empty response",
        _median_ratio(samples, "postgresql hot 256", EMPTY_CASE, _cpu),
        "at most",
        2.5,
    ),
    lambda samples, _: Target(
        "SQLite: CPU per transfer, relative to an empty response",
        _median_ratio(samples, "sqlite hot 256", EMPTY_CASE, _cpu),
        "at most",
        2.5,
    ),
    lambda samples, _: Target(
        "SQLite: rate of polls, relative to empty responses",
        _median_ratio(samples, "sqlite charge 256", EMPTY_CASE),
        "at least",
        0.6,
    ),
    lambda samples, _: Target(
        "PostgreSQL: rate of polls, relative to empty responses",
        _median_ratio(samples, "postgresql charge 256", EMPTY_CASE),
        "at least",
        0.45,
    ),
    lambda samples, _: Target(
        "SQLite: rate of following, a page of one, relative to empty responses",
        _median_ratio(samples, "sqlite follow 256", EMPTY_CASE),
        "at least",
        0.4,
    ),
    lambda samples, _: Target(
        "PostgreSQL: rate of following, a page of one, relative to empty responses",
        _median_ratio(samples, "postgresql follow 256", EMPTY_CASE),
        "at least",
        0.4,
    ),
    lambda samples, _: Target(
        "SQLite: rate of polls answered 304, relative to polls answered 200",
        _median_ratio(samples, "sqlite charge unchanged 256", "sqlite charge 256"),
        "at least",
        1,
    ),
    lambda samples, _: Target(
        "PostgreSQL: rate of polls answered 304, relative to polls answered 200",
        _median_ratio(samples, "postgresql charge unchanged 256", "postgresql charge 256"),
        "at least",
        1,
    ),
    lambda samples, _: Target(
        "SQLite, one connection: median time, relative to a flush plus an empty response",
        _single_transfer_time(samples),
        "at most",
        2.5,
    ),
)


def _process_targets(stage: BenchEnvironment) -> list[Target]:
    targets = []
    for engine, ledger in stage.ledgers.items():
        targets.append(Target(f"{engine}: seconds to start", ledger.start_seconds, "at most", 1.0))
        targets.append(
            Target(f"{engine}: megabytes when idle", ledger.idle_megabytes, "at most", 80)
        )
    return targets


def _processor() -> str:
    """Return the name of the processor."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
