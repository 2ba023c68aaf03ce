"""Results: medians over the rounds with their spread, as a table of ratios and as JSON."""

import os
import platform
import time
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
from rich.console import Console
from rich.table import Table

from bench.cases import Sample

ANCHOR: Final = "pgbench"
EMPTY: Final = "empty"

_MICROS: Final = 1_000_000
_MILLIS: Final = 1_000


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table."""

    name: str
    ratio: float  # best pgbench = 1
    ratio_low: float
    ratio_high: float
    rate: float
    p50_milliseconds: float
    p99_milliseconds: float
    server_cpu_micros: float
    database_cpu_micros: float
    client_cpu_micros: float
    samples: list[Sample]


def results(samples: dict[str, list[Sample]]) -> list[Result]:
    """Return a result for each case, with the best median of pgbench as 1."""
    anchor = max(median(_rates(runs)) for name, runs in samples.items() if name.startswith(ANCHOR))
    return [_result(name, runs, anchor) for name, runs in samples.items()]


def _result(name: str, runs: list[Sample], anchor: float) -> Result:
    rates = _rates(runs)
    done = sum(run.tally.acknowledged for run in runs)
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
        samples=runs,
    )


def _rates(runs: list[Sample]) -> list[float]:
    return [run.tally.rate for run in runs]


def show(found: list[Result]) -> None:
    """Print the table."""
    table = Table(title="Durable transfers a second; the best pgbench is 1")
    for heading in ("case", "ratio", "low to high", "per second", "p50 ms", "p99 ms"):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    for heading in ("server", "of empty", "database", "client"):
        table.add_column(heading + (" µs" if heading != "of empty" else ""), justify="right")
    empty = next((each for each in found if each.name.startswith(EMPTY)), None)
    for each in found:
        table.add_row(
            each.name,
            f"{each.ratio:.2f}",
            f"{each.ratio_low:.2f} to {each.ratio_high:.2f}",
            f"{each.rate:,.0f}",
            f"{each.p50_milliseconds:.2f}",
            f"{each.p99_milliseconds:.2f}",
            _figure(each.server_cpu_micros),
            f"{each.server_cpu_micros / empty.server_cpu_micros:.1f}x"
            if empty is not None and each.server_cpu_micros
            else "",
            _figure(each.database_cpu_micros),
            _figure(each.client_cpu_micros),
        )
    console = Console(width=None if Console().is_terminal else 140)
    console.print(table)
    console.print("CPU is microseconds a request; `of empty` compares it with the empty endpoint.")


def _figure(micros: float) -> str:
    return f"{micros:.0f}" if micros else ""


def write(found: list[Result], folder: Path, postgres_version: str) -> Path:
    """Write the results as JSON, and return where."""
    path = folder / f"results-{time.strftime('%Y%m%d-%H%M%S')}.json"
    document = {
        "python": platform.python_version(),
        "postgresql": postgres_version,
        "cores": os.cpu_count(),
        "results": found,
    }
    path.write_bytes(msgspec.json.format(msgspec.json.encode(document)))
    return path
