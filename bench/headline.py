"""The few figures that stand first on the performance page."""

from collections.abc import Iterator
from typing import Final

from bench import tables
from bench.mixed import TRANSFERS
from bench.results import Report, Result

HEADINGS: Final = ("", "PostgreSQL", "SQLite")
PREPARED_CASE: Final = "prepared tpcb-like 8"
_ENGINES: Final = ("postgresql", "sqlite")


def table(report: Report) -> str:
    """Return the figures of both engines as Markdown; what was not measured is left out."""
    return tables.markdown(HEADINGS, (row for row in _rows(report) if all(row)))


def _rows(report: Report) -> Iterator[tuple[str, ...]]:
    by_name = {each.name: each for each in report.results}
    hot, one = ([by_name.get(f"{engine} hot {n}") for engine in _ENGINES] for n in (256, 1))
    balances, polls = (
        [by_name.get(f"{engine} {read} 256") for engine in _ENGINES]
        for read in ("balance", "charge")
    )
    yield (
        "Durable transfers per second, 256 connections",
        *(f"**{each.rate:,.0f}**" if each else "" for each in hot),
    )
    yield (
        "The same, relative to pgbench (lowest and highest round)",
        *(_ratio_and_range(each) if each else "" for each in hot),
    )
    prepared = by_name.get(PREPARED_CASE)
    yield (
        "The same, relative to pgbench with prepared statements",
        *(f"{each.rate / prepared.rate:.2f}" if each and prepared else "" for each in hot),
    )
    yield (
        "One transfer at a time: median",
        *(f"{each.p50_milliseconds:.2f} ms" if each else "" for each in one),
    )
    yield "Balances read per second", *(f"{each.rate:,.0f}" if each else "" for each in balances)
    yield "Polls of a charge per second", *(f"{each.rate:,.0f}" if each else "" for each in polls)
    yield "The slowest page of the portal: median", *_slowest_page(report)
    yield "The slowest read while money moves: p99", *_slowest_read(report)
    for words, name, unit in (
        ("A new server answers after", "seconds to start", "s"),
        ("Memory of an idle server", "megabytes when idle", "MB"),
    ):
        found = {each.name: f"{each.value:.2g} {unit}" for each in report.targets}
        yield words, *(found.get(f"{engine}: {name}", "") for engine in _ENGINES)


def _ratio_and_range(result: Result) -> str:
    return f"{result.ratio:.2f} ({result.ratio_low:.2f} to {result.ratio_high:.2f})"


def _slowest_page(report: Report) -> Iterator[str]:
    for engine in _ENGINES:
        times = [each.p50_milliseconds for each in report.pages if each.engine == engine]
        yield f"{max(times):.1f} ms" if times else ""


def _slowest_read(report: Report) -> Iterator[str]:
    reads = [each for each in report.mixed if each.request != TRANSFERS]
    for engine in _ENGINES:
        times = [each.p99_milliseconds for each in reads if each.engine == engine]
        yield f"{max(times):.0f} ms" if times else ""
