"""Publishing: writes results into the documentation.

The page is generated from a template and the stored results, and from nothing else.
"""

from pathlib import Path
from typing import Final

import msgspec

from bench import tables
from bench.growth import SizeResult
from bench.results import Report

ROOT: Final = Path(__file__).parents[1]
REPORT: Final = ROOT / "bench" / "published.json"
GROWTH: Final = ROOT / "bench" / "published-growth.json"
TEMPLATE: Final = ROOT / "bench" / "performance.template"
PAGE: Final = ROOT / "docs" / "operating" / "performance.md"
CHART: Final = ROOT / "docs" / "operating" / "performance.svg"


def publish(report: Report) -> None:
    """Store a report, and update the page and its chart."""
    REPORT.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    tables.write_chart(report, CHART)
    PAGE.write_text(page())


def publish_growth(sizes: list[SizeResult]) -> None:
    """Store the results of growth, and update the page."""
    GROWTH.write_bytes(msgspec.json.format(msgspec.json.encode(sizes)) + b"\n")
    PAGE.write_text(page())


def page() -> str:
    """Return the performance page, generated from the stored results."""
    report = msgspec.json.decode(REPORT.read_bytes(), type=Report)
    sizes = msgspec.json.decode(GROWTH.read_bytes(), type=list[SizeResult])
    words = {
        "table": tables.narrow_table(report),
        "targets": tables.markdown(tables.TARGET_HEADINGS, tables.target_rows(report)),
        "growth": tables.markdown(tables.GROWTH_HEADINGS, tables.growth_rows(sizes)),
        "measured_at": report.measured_at,
        "seconds": f"{report.seconds:g}",
        "rounds": str(report.rounds),
        "cores": str(report.cores),
        "processor": report.processor,
        "python": report.python,
        "postgresql": report.postgresql,
    }
    text = TEMPLATE.read_text()
    for name, value in words.items():
        text = text.replace("{{ " + name + " }}", value)
    return text
