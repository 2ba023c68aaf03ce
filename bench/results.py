"""Results: medians over the rounds with their range."""

import os
import platform
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from bench import targets
from bench.cases import BenchEnvironment, Sample
from bench.mixed import MixedResult
from bench.pages import PageResult
from bench.targets import BASELINE, Samples, Target, rate

UNKNOWN_COMMIT: Final = "unknown"  # outside of a clone

_MICROS: Final = 1_000_000
_MILLIS: Final = 1_000


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the results table."""

    name: str
    ratio: float  # relative to the faster of the two pgbench cases without prepared statements
    ratio_low: float
    ratio_high: float
    rate: float
    p50_milliseconds: float
    p99_milliseconds: float
    server_cpu_micros: float
    database_cpu_micros: float
    client_cpu_micros: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a run, and the machine it ran on."""

    measured_at: str
    commit: str
    remark: str = ""  # what else a reader of the figures must know
    seconds: float
    rounds: int
    processor: str
    cores: int
    python: str
    postgresql: str
    results: list[Result]
    targets: list[Target]
    pages: list[PageResult] = []
    mixed: list[MixedResult] = []


class Measurements(msgspec.Struct, frozen=True, kw_only=True):
    """All that a run has measured."""

    seconds: float
    rounds: int
    samples: Samples
    pages: list[PageResult]
    mixed: list[MixedResult]
    commands: dict[str, float]  # how many seconds each takes


def make_report(environment: BenchEnvironment, measured: Measurements) -> Report:
    """Return the report of a run; rates are relative to the pgbench case with the best median."""
    samples = measured.samples
    medians = {name: median(map(rate, runs)) for name, runs in samples.items()}
    baseline = max(
        (name for name in medians if name.startswith(BASELINE)), key=lambda name: medians[name]
    )
    return Report(
        measured_at=utc_time(),
        commit=checked_out_commit(),
        seconds=measured.seconds,
        rounds=measured.rounds,
        processor=_processor(),
        cores=os.cpu_count() or 0,
        python=platform.python_version(),
        postgresql=environment.postgres.version,
        results=[_result(name, runs, medians[baseline]) for name, runs in samples.items()],
        targets=[
            *targets.case_targets(samples, baseline),
            *targets.mixed_targets(measured.mixed),
            *targets.page_targets(measured.pages),
            *targets.process_targets(environment.ledgers, measured.commands),
        ],
        pages=measured.pages,
        mixed=measured.mixed,
    )


def utc_time() -> str:
    """Return the time of now, as the page shows it."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())


def checked_out_commit() -> str:
    """Return the commit whose code runs, with `-dirty` after it if files have been changed."""
    command = ["git", "describe", "--always", "--dirty"]
    try:
        described = subprocess.run(  # noqa: S603 - constants
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN_COMMIT
    return described.stdout.strip()


def write(report: Report, folder: Path) -> Path:
    """Write the report as JSON, and return its path."""
    path = folder / f"results-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    return path


def _result(name: str, runs: Sequence[Sample], baseline: float) -> Result:
    rates = [rate(run) for run in runs]
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


def _processor() -> str:
    """Return the name of the processor."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
