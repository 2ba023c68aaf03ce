"""Results: medians over the rounds with their spread, and the bars that they are held to."""

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final, Literal

import msgspec

from bench.cases import Sample, Stage

ANCHOR: Final = "pgbench"
EMPTY: Final = "empty endpoint 256"
FLUSH: Final = "flush of 4 KiB"
# What is compared runs side by side: a noisy machine is another one a minute later.
SIDE_BY_SIDE: Final = (
    "pgbench tpcb-like 8",
    "pgbench tpcb-like 32",
    "postgresql spread 256",
    "reference fastapi hot 64",
    "postgresql hot 256",
    EMPTY,
    "sqlite hot 256",
    "postgresql charge 256",
    "postgresql charge unchanged 256",
    "sqlite charge 256",
    "sqlite charge unchanged 256",
    "empty endpoint 1",
    FLUSH,
    "sqlite hot 1",
)

_MICROS: Final = 1_000_000
_MILLIS: Final = 1_000


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table."""

    name: str
    ratio: float  # the best pgbench is 1
    ratio_low: float
    ratio_high: float
    rate: float
    p50_milliseconds: float
    p99_milliseconds: float
    server_cpu_micros: float
    database_cpu_micros: float
    client_cpu_micros: float


Samples = dict[str, list[Sample]]  # of each case, one a round


class Bar(msgspec.Struct, frozen=True):
    """What a figure is held to."""

    name: str
    figure: float
    relation: Literal["at least", "at most"]
    bound: float

    @property
    def holds(self) -> bool:
        """Whether the figure is on the right side of its bound."""
        if self.relation == "at least":
            return self.figure >= self.bound
        return self.figure <= self.bound


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All that a run found, and where."""

    measured_at: str
    seconds: float
    rounds: int
    processor: str
    cores: int
    python: str
    postgresql: str
    results: list[Result]
    bars: list[Bar]


def report(stage: Stage, samples: Samples, seconds: float, rounds: int) -> Report:
    """Return what a run found, with the best median of pgbench as 1."""
    medians = {name: median(map(_rate, runs)) for name, runs in samples.items()}
    anchor = max(
        (name for name in medians if name.startswith(ANCHOR)), key=lambda name: medians[name]
    )
    return Report(
        measured_at=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        seconds=seconds,
        rounds=rounds,
        processor=_processor(),
        cores=os.cpu_count() or 0,
        python=platform.python_version(),
        postgresql=stage.postgres.version,
        results=[_result(name, runs, medians[anchor]) for name, runs in samples.items()],
        bars=[*_bars(samples, anchor), *_bars_of_processes(stage)],
    )


def write(found: Report, folder: Path) -> Path:
    """Write the report as JSON, and return where."""
    path = folder / f"results-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    return path


def _result(name: str, runs: list[Sample], anchor: float) -> Result:
    rates = [_rate(run) for run in runs]
    done = sum(run.tally.total for run in runs)
    return Result(
        name=name,
        ratio=median(rates) / anchor,
        ratio_low=min(rates) / anchor,
        ratio_high=max(rates) / anchor,
        rate=median(rates),
        p50_milliseconds=median(run.tally.p50_seconds for run in runs) * _MILLIS,
        p99_milliseconds=median(run.tally.p99_seconds for run in runs) * _MILLIS,
        server_cpu_micros=sum(run.server_cpu_seconds for run in runs) / done * _MICROS,
        database_cpu_micros=sum(run.database_cpu_seconds for run in runs) / done * _MICROS,
        client_cpu_micros=sum(run.tally.client_cpu_seconds for run in runs) / done * _MICROS,
    )


def _bars(samples: Samples, anchor: str) -> list[Bar]:
    """Return the bars whose cases were all measured."""
    bars = []
    for make in _BARS:
        try:
            bars.append(make(samples, anchor))
        except KeyError:  # a case that this run was not asked for
            continue
    return bars


def _rate(sample: Sample) -> float:
    return sample.tally.rate


def _cpu(sample: Sample) -> float:
    return sample.server_cpu_seconds / sample.tally.total


def _compared(
    samples: Samples, name: str, other: str, figure: Callable[[Sample], float] = _rate
) -> float:
    """Return how a case compares with another, each with the other's run in the same round."""
    pairs = zip(samples[name], samples[other], strict=True)
    return median(figure(one) / figure(two) for one, two in pairs)


def _lonely(samples: Samples) -> float:
    """Return a lonely transfer's time on SQLite, in those of a flush and an empty answer."""
    rounds = zip(samples["sqlite hot 1"], samples[FLUSH], samples["empty endpoint 1"], strict=True)
    return median(
        transfer.tally.p50_seconds / (flush.tally.p50_seconds + empty.tally.p50_seconds)
        for transfer, flush, empty in rounds
    )


_BARS: Final[tuple[Callable[[Samples, str], Bar], ...]] = (
    lambda samples, anchor: Bar(
        "PostgreSQL, hot, 256: of pgbench",
        _compared(samples, "postgresql hot 256", anchor),
        "at least",
        1.5,
    ),
    lambda samples, anchor: Bar(
        "PostgreSQL, spread, 256: of pgbench",
        _compared(samples, "postgresql spread 256", anchor),
        "at least",
        1.3,
    ),
    lambda samples, _: Bar(
        "PostgreSQL, hot, 256: of the reference",
        _compared(samples, "postgresql hot 256", "reference fastapi hot 64"),
        "at least",
        10,
    ),
    lambda samples, anchor: Bar(
        "SQLite, hot, 256: of pgbench",
        _compared(samples, "sqlite hot 256", anchor),
        "at least",
        1.7,
    ),
    lambda samples, _: Bar(
        "PostgreSQL: server CPU of a transfer, of an empty answer's",
        _compared(samples, "postgresql hot 256", EMPTY, _cpu),
        "at most",
        2.5,
    ),
    lambda samples, _: Bar(
        "SQLite: server CPU of a transfer, of an empty answer's",
        _compared(samples, "sqlite hot 256", EMPTY, _cpu),
        "at most",
        2.5,
    ),
    lambda samples, _: Bar(
        "SQLite: rate of polls, of empty answers'",
        _compared(samples, "sqlite charge 256", EMPTY),
        "at least",
        0.6,
    ),
    lambda samples, _: Bar(
        "PostgreSQL: rate of polls, of empty answers'",
        _compared(samples, "postgresql charge 256", EMPTY),
        "at least",
        0.45,
    ),
    lambda samples, _: Bar(
        "SQLite: rate of polls that find no change, of polls'",
        _compared(samples, "sqlite charge unchanged 256", "sqlite charge 256"),
        "at least",
        1,
    ),
    lambda samples, _: Bar(
        "PostgreSQL: rate of polls that find no change, of polls'",
        _compared(samples, "postgresql charge unchanged 256", "postgresql charge 256"),
        "at least",
        1,
    ),
    lambda samples, _: Bar(
        "SQLite, one connection: median time, of a flush and an empty answer's",
        _lonely(samples),
        "at most",
        2.5,
    ),
)


def _bars_of_processes(stage: Stage) -> list[Bar]:
    bars = []
    for engine, ledger in stage.ledgers.items():
        bars.append(Bar(f"{engine}: seconds to start", ledger.start_seconds, "at most", 1.0))
        bars.append(Bar(f"{engine}: megabytes when idle", ledger.idle_megabytes, "at most", 80))
    return bars


def _processor() -> str:
    """Return what the system calls its processor."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
