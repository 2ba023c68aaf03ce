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


Found = dict[str, Result]


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


def report(stage: Stage, samples: dict[str, list[Sample]], seconds: float, rounds: int) -> Report:
    """Return what a run found, with the best median of pgbench as 1."""
    anchor = max(median(_rates(runs)) for name, runs in samples.items() if name.startswith(ANCHOR))
    found = {name: _result(name, runs, anchor) for name, runs in samples.items()}
    return Report(
        measured_at=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        seconds=seconds,
        rounds=rounds,
        processor=_processor(),
        cores=os.cpu_count() or 0,
        python=platform.python_version(),
        postgresql=stage.postgres.version,
        results=list(found.values()),
        bars=[*_bars(found), *_bars_of_processes(stage)],
    )


def write(found: Report, folder: Path) -> Path:
    """Write the report as JSON, and return where."""
    path = folder / f"results-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    return path


def _result(name: str, runs: list[Sample], anchor: float) -> Result:
    rates = _rates(runs)
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


def _rates(runs: list[Sample]) -> list[float]:
    return [run.tally.rate for run in runs]


def _bars(found: Found) -> list[Bar]:
    """Return the bars whose cases were all measured."""
    bars = []
    for make in _BARS:
        try:
            bars.append(make(found))
        except KeyError:  # a case that this run was not asked for
            continue
    return bars


_BARS: Final[tuple[Callable[[Found], Bar], ...]] = (
    lambda found: Bar(
        "PostgreSQL, hot, 256: of pgbench", found["postgresql hot 256"].ratio, "at least", 1.5
    ),
    lambda found: Bar(
        "PostgreSQL, spread, 256: of pgbench", found["postgresql spread 256"].ratio, "at least", 1.3
    ),
    lambda found: Bar(
        "PostgreSQL, hot, 256: of the reference",
        found["postgresql hot 256"].rate / found["reference fastapi hot 64"].rate,
        "at least",
        10,
    ),
    lambda found: Bar(
        "SQLite, hot, 256: of pgbench", found["sqlite hot 256"].ratio, "at least", 1.7
    ),
    lambda found: Bar(
        "PostgreSQL: server CPU of a transfer, of an empty answer's",
        found["postgresql hot 256"].server_cpu_micros / found[EMPTY].server_cpu_micros,
        "at most",
        2.5,
    ),
    lambda found: Bar(
        "SQLite: server CPU of a transfer, of an empty answer's",
        found["sqlite hot 256"].server_cpu_micros / found[EMPTY].server_cpu_micros,
        "at most",
        2.5,
    ),
    lambda found: Bar(
        "SQLite: rate of polls, of empty answers'",
        found["sqlite charge 256"].rate / found[EMPTY].rate,
        "at least",
        0.6,
    ),
    lambda found: Bar(
        "PostgreSQL: rate of polls, of empty answers'",
        found["postgresql charge 256"].rate / found[EMPTY].rate,
        "at least",
        0.45,
    ),
    lambda found: Bar(
        "SQLite: rate of polls that find no change, of polls'",
        found["sqlite charge unchanged 256"].rate / found["sqlite charge 256"].rate,
        "at least",
        1,
    ),
    lambda found: Bar(
        "PostgreSQL: rate of polls that find no change, of polls'",
        found["postgresql charge unchanged 256"].rate / found["postgresql charge 256"].rate,
        "at least",
        1,
    ),
    lambda found: Bar(
        "SQLite, one connection: median time, of a flush and an empty answer's",
        found["sqlite hot 1"].p50_milliseconds
        / (found["flush of 4 KiB"].p50_milliseconds + found["empty endpoint 1"].p50_milliseconds),
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
