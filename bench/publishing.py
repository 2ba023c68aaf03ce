"""Publishing: what was measured goes into the documentation, and nothing else does.

The reports stand beside the page, and the page can be made from them again at any time.
"""

from pathlib import Path
from typing import Final

import msgspec

from bench import tables
from bench.growth import Size
from bench.results import Report

ROOT: Final = Path(__file__).parents[1]
REPORT: Final = ROOT / "bench" / "published.json"
GROWTH: Final = ROOT / "bench" / "published-growth.json"
TEMPLATE: Final = ROOT / "bench" / "performance.template"
PAGE: Final = ROOT / "docs" / "operating" / "performance.md"
CHART: Final = ROOT / "docs" / "operating" / "performance.svg"


def publish(report: Report) -> None:
    """Put a report into the documentation."""
    REPORT.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    tables.write_chart(report, CHART)
    PAGE.write_text(page())


def publish_growth(sizes: list[Size]) -> None:
    """Put the figures of growing books into the documentation."""
    GROWTH.write_bytes(msgspec.json.format(msgspec.json.encode(sizes)) + b"\n")
    PAGE.write_text(page())


def page() -> str:
    """Return the page about performance, made from what was measured last."""
    report = msgspec.json.decode(REPORT.read_bytes(), type=Report)
    sizes = msgspec.json.decode(GROWTH.read_bytes(), type=list[Size])
    words = {
        "table": tables.narrow(report),
        "bars": tables.markdown(("what", "figure", "bound", "holds"), tables.bars(report)),
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
