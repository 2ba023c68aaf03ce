"""Publishing: writes results into the documentation.

The page is generated from a template and the stored results, and from nothing else.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from bench import headline, mixed, tables, targets
from bench.growth import GrowthReport, SizeResult
from bench.results import Report, checked_out_commit, utc_time

ROOT: Final = Path(__file__).parents[1]
REPORT: Final = ROOT / "bench" / "published.json"
GROWTH: Final = ROOT / "bench" / "published-growth.json"
TEMPLATE: Final = ROOT / "bench" / "performance.template"
PAGE: Final = ROOT / "docs" / "operating" / "performance.md"
CHART: Final = ROOT / "docs" / "operating" / "performance.svg"

MIXED_INTRODUCTION: Final = """
## Reads while money moves

Transfers come at 70 % of the highest rate that was measured a moment before, over 64 connections.
At the same time, each kind of read comes a hundred times a second, over 8 connections of its own.
The times are in milliseconds: medians of {{ mixed_rounds }} rounds of {{ mixed_seconds }} s, except
“longest”, which is the longest of all rounds. Few reads decide a p99: of the 500 reads in 5 s, only
five take longer. Where the p99 of reads alone is longer than that during transfers, something else
disturbed these reads, and we do not know what.
"""
PAGES_INTRODUCTION: Final = """
## Pages

The time is the median over one connection, in milliseconds, for an account with hundreds of
movements. Pages are sent without compression. The assets are the style sheet, the scripts and the
icon, compressed; a browser loads them once.
"""


def publish(report: Report) -> None:
    """Store a report, and update the page and its chart."""
    REPORT.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    tables.write_chart(report, CHART)
    PAGE.write_text(page())


def publish_growth(sizes: list[SizeResult]) -> None:
    """Store the results of growth, and update the page."""
    report = GrowthReport(measured_at=utc_time(), commit=checked_out_commit(), sizes=sizes)
    GROWTH.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    PAGE.write_text(page())


def page() -> str:
    """Return the performance page, generated from the stored results."""
    report = msgspec.json.decode(REPORT.read_bytes(), type=Report)
    growth = msgspec.json.decode(GROWTH.read_bytes(), type=GrowthReport)
    words = {
        "figures": headline.table(report),
        "mixed": _section(MIXED_INTRODUCTION, tables.MIXED_HEADINGS, tables.mixed_rows(report)),
        "pages": _section(PAGES_INTRODUCTION, tables.PAGE_HEADINGS, tables.page_rows(report)),
        "table": tables.narrow_table(report),
        "targets": tables.markdown(tables.TARGET_HEADINGS, tables.target_rows(report)),
        "unclaimed": tables.markdown(
            tables.UNCLAIMED_HEADINGS, tables.unclaimed_rows(report), ends_with_prose=True
        ),
        "unmeasured": _unmeasured(report),
        "growth": tables.markdown(
            *tables.filled_columns(tables.GROWTH_HEADINGS, tables.growth_rows(growth.sizes))
        ),
        "growth_measured_at": growth.measured_at,
        "growth_commit": growth.commit,
        "growth_remark": growth.remark,
        "measured_at": report.measured_at,
        "commit": report.commit,
        "remark": report.remark,
        "seconds": f"{report.seconds:g}",
        "rounds": str(report.rounds),
        "mixed_seconds": f"{report.seconds * mixed.WINDOW_FACTOR:g}",
        "mixed_rounds": str(min(report.rounds, mixed.ROUNDS_MAX)),
        "cores": str(report.cores),
        "processor": report.processor,
        "python": report.python,
        "postgresql": report.postgresql,
    }
    text = TEMPLATE.read_text()
    for name, value in words.items():
        text = text.replace("{{ " + name + " }}", value)
    return re.sub(r"\n{3,}", "\n\n", text)


def _unmeasured(report: Report) -> str:
    """Return a sentence about the cases that have targets but were not measured, if any."""
    cases = targets.unmeasured_cases({each.name for each in report.results})
    names = ", ".join(f"`{case}`" for case in cases)
    return (
        f"These cases have targets too, but this run did not measure them: {names}."
        if cases
        else ""
    )


def _section(introduction: str, headings: tuple[str, ...], lines: Iterator[tuple[str, ...]]) -> str:
    """Return a section with its table, or nothing if there is nothing in the table."""
    rows = list(lines)
    return f"{introduction}\n{tables.markdown(headings, iter(rows))}" if rows else ""
