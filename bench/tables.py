"""The report as tables for the terminal, and as Markdown and SVG for the documentation."""

from collections.abc import Iterator
from itertools import compress
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from rich.console import Console
from rich.table import Table

from bench.growth import SizeResult
from bench.results import Report, Result
from bench.targets import EMPTY_CASE

HEADINGS: Final = (
    "case",
    "ratio",
    "low to high",
    "per second",
    "p50 ms",
    "p99 ms",
    "server µs",
    "vs. empty",
    "database µs",
    "client µs",
)
GROWTH_HEADINGS: Final = (
    "engine",
    "entries",
    "transfers per second",
    "balances per second",
    "list pages per second",
    "entries verified per second",
    "memory of verify, MB",
    "movements since a checkpoint",
    "seconds to verify these",
    "disk MB per million entries",
)
PAGE_HEADINGS: Final = ("page", "PostgreSQL ms", "SQLite ms", "page KB", "assets KB")
MIXED_HEADINGS: Final = (
    "engine",
    "request",
    "per second",
    "p50 alone",
    "p99 alone",
    "p50",
    "p99",
    "longest",
    "p99 ratio",
)
TARGET_HEADINGS: Final = ("target", "measured", "bound", "met")
UNCLAIMED_HEADINGS: Final = ("figure", "measured", "aim", "why we do not claim it")
CHARTED_CASES: Final = {
    "reference fastapi hot 64": "A conventional application on FastAPI",
    "pgbench tpcb-like 8": "pgbench, 8 clients",
    "prepared tpcb-like 8": "pgbench, 8 clients, prepared statements",
    "postgresql spread 256": "Ousel on PostgreSQL, 256 accounts pay",
    "postgresql hot 256": "Ousel on PostgreSQL, one account pays",
    "sqlite spread 256": "Ousel on SQLite, 256 accounts pay",
    "sqlite hot 256": "Ousel on SQLite, one account pays",
}

_WIDTH, _VALUE_WIDTH, _ROW_HEIGHT, _BAR_HEIGHT = 400, 44, 50, 18


def show(report: Report) -> None:
    """Print the results and the targets."""
    console = Console(width=None if Console().is_terminal else 140)
    console.print(
        _table(
            "Rates relative to pgbench (the faster of 8 and 32 clients is 1)",
            HEADINGS,
            rows(report),
        )
    )
    console.print(
        "CPU time is in microseconds per request; `vs. empty` is relative to an empty response."
    )
    if report.mixed:
        console.print(_table("Mixed load, in milliseconds", MIXED_HEADINGS, mixed_rows(report)))
    if report.pages:
        console.print(_table("Pages", PAGE_HEADINGS, page_rows(report)))
    console.print(_table("Targets", TARGET_HEADINGS, target_rows(report)))
    console.print(_table("Not claimed", UNCLAIMED_HEADINGS, unclaimed_rows(report)))


def show_growth(sizes: list[SizeResult]) -> None:
    """Print the results at each size of the ledger."""
    console = Console(width=None if Console().is_terminal else 140)
    console.print(_table("As the ledger grows", GROWTH_HEADINGS, growth_rows(sizes)))


def rows(report: Report) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the results table."""
    empty = next((each for each in report.results if each.name == EMPTY_CASE), None)
    for each in report.results:
        yield (
            each.name,
            f"{each.ratio:.2f}",
            f"{each.ratio_low:.2f} to {each.ratio_high:.2f}",
            f"{each.rate:,.0f}",
            f"{each.p50_milliseconds:.2f}",
            f"{each.p99_milliseconds:.2f}",
            _number_text(each.server_cpu_micros),
            _relative_to_empty(each, empty),
            _number_text(each.database_cpu_micros),
            _number_text(each.client_cpu_micros),
        )


def target_rows(report: Report) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the targets table: the bounds that we claim."""
    for each in report.targets:
        if not each.unclaimed_because:
            bound = f"{each.relation} {each.bound:g}"
            yield each.name, f"{each.value:.2f}", bound, "yes" if each.is_met else "no"


def unclaimed_rows(report: Report) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of bounds that we do not claim."""
    for each in report.targets:
        if each.unclaimed_because:
            aim = f"{each.relation} {each.bound:g}"
            yield each.name, f"{each.value:.2f}", aim, each.unclaimed_because


def growth_rows(sizes: list[SizeResult]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the growth table."""
    for size in sizes:
        values = (size.entries, size.transfers, size.balances, size.pages, size.verified)
        disk = size.disk_bytes / size.entries
        yield (
            size.engine,
            *(f"{value:,.0f}" for value in values),
            _number_text(size.verify_megabytes),
            f"{size.added:,}" if size.added else "",
            f"{size.since_seconds:.2f}" if size.added else "",
            _number_text(disk),
        )


def page_rows(report: Report) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of pages: both engines in one row."""
    engines = {(each.engine, each.page): each for each in report.pages}
    for (engine, page), on_sqlite in engines.items():
        if engine == "sqlite":
            on_postgres = engines["postgresql", page]
            yield (
                f"`{page}`",
                f"{on_postgres.p50_milliseconds:.2f}",
                f"{on_sqlite.p50_milliseconds:.2f}",
                f"{on_sqlite.page_bytes / 1_000:.1f}",
                f"{on_sqlite.asset_bytes / 1_000:.1f}",
            )


def mixed_rows(report: Report) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of mixed load."""
    for each in report.mixed:
        times = (
            each.alone_p50_milliseconds,
            each.alone_p99_milliseconds,
            each.p50_milliseconds,
            each.p99_milliseconds,
            each.longest_milliseconds,
            each.p99_ratio,
        )
        yield (each.engine, each.request, f"{each.rate:,.0f}", *(f"{time:.1f}" for time in times))


def markdown(
    headings: tuple[str, ...], lines: Iterator[tuple[str, ...]], *, ends_with_prose: bool = False
) -> str:
    """Return a table as Markdown; columns of figures are aligned to the right."""
    marks = ["---", *("---:" for _ in headings[1:])]
    if ends_with_prose:
        marks[-1] = "---"
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, marks, *lines))


def filled_columns(
    headings: tuple[str, ...], lines: Iterator[tuple[str, ...]]
) -> tuple[tuple[str, ...], Iterator[tuple[str, ...]]]:
    """Return the table without the columns that are empty in all rows."""
    rows = list(lines)
    filled = [any(row[at] for row in rows) for at in range(len(headings))]
    return tuple(compress(headings, filled)), (tuple(compress(row, filled)) for row in rows)


def narrow_table(report: Report) -> str:
    """Return the results as Markdown without the last columns and without line breaks."""
    lines = (tuple(_without_breaks(cell) for cell in row[:7]) for row in rows(report))
    return markdown(HEADINGS[:7], lines)


def write_chart(report: Report, path: Path) -> None:
    """Write the ratios of a few cases as a bar chart."""
    by_name = {each.name: each for each in report.results}
    shown = [by_name[name] for name in CHARTED_CASES if name in by_name]
    scale = (_WIDTH - _VALUE_WIDTH) / max(each.ratio for each in shown)
    height = _ROW_HEIGHT * len(shown)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        "<title>Durable transfers per second, relative to pgbench</title>",
        "<style>@media (prefers-color-scheme: dark) { text { fill: #a3b1b6 } }</style>",
        '<g font-family="system-ui, sans-serif" font-size="14" fill="#56636a">',
        *(_bar(each, _ROW_HEIGHT * index, scale) for index, each in enumerate(shown)),
        "</g></svg>",
    ]
    path.write_text("\n".join(parts) + "\n")


def _bar(each: Result, top: int, scale: float) -> str:
    """Return a bar with its name above and its value to the right."""
    colour = "#0f7b6c" if each.name.startswith(("postgresql", "sqlite")) else "#8a8f98"
    width = max(each.ratio * scale, 1)
    bar = top + 20
    return (
        f'<text x="0" y="{bar - 6}">{escape(CHARTED_CASES[each.name])}</text>'
        f'<rect x="0" y="{bar}" width="{width:.0f}" height="{_BAR_HEIGHT}" rx="3" fill="{colour}"/>'
        f'<text x="{width + 8:.0f}" y="{bar + _BAR_HEIGHT - 4}">{each.ratio:.2f}</text>'
    )


def _table(title: str, headings: tuple[str, ...], lines: Iterator[tuple[str, ...]]) -> Table:
    table = Table(title=title)
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index else "left")
    for line in lines:
        table.add_row(*line)
    return table


def _without_breaks(cell: str) -> str:
    return cell.replace(" ", "\N{NO-BREAK SPACE}")


def _number_text(value: float) -> str:
    return f"{value:.0f}" if value else ""


def _relative_to_empty(each: Result, empty: Result | None) -> str:
    if empty is None or not each.server_cpu_micros:
        return ""
    return f"{each.server_cpu_micros / empty.server_cpu_micros:.1f}x"
