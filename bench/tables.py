"""Tables: the report for a terminal, and as Markdown and SVG for the documentation."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from rich.console import Console
from rich.table import Table

from bench.growth import Size
from bench.results import EMPTY, Report, Result

HEADINGS: Final = (
    "case",
    "ratio",
    "low to high",
    "per second",
    "p50 ms",
    "p99 ms",
    "server µs",
    "of empty",
    "database µs",
    "client µs",
)
GROWTH_HEADINGS: Final = (
    "engine",
    "entries",
    "transfers a second",
    "balances a second",
    "list pages a second",
    "verified a second",
)
CHARTED: Final = (
    "reference fastapi hot 64",
    "pgbench tpcb-like 8",
    "postgresql spread 256",
    "postgresql hot 256",
    "sqlite spread 256",
    "sqlite hot 256",
)

_WIDTH, _FIGURE, _ROW, _BAR = 400, 44, 50, 18


def show(found: Report) -> None:
    """Print the table, and what it is held to."""
    console = Console(width=None if Console().is_terminal else 140)
    console.print(_table("The best pgbench is 1", HEADINGS, rows(found)))
    console.print("CPU is microseconds a request; `of empty` compares it with an empty answer's.")
    console.print(_table("Held to", ("what", "figure", "bound", "holds"), bars(found)))


def show_growth(sizes: list[Size]) -> None:
    """Print how the figures grow with the books."""
    console = Console(width=None if Console().is_terminal else 140)
    console.print(_table("As the books grow", GROWTH_HEADINGS, growth_rows(sizes)))


def rows(found: Report) -> Iterator[tuple[str, ...]]:
    """Yield the lines of the table."""
    empty = next((each for each in found.results if each.name == EMPTY), None)
    for each in found.results:
        yield (
            each.name,
            f"{each.ratio:.2f}",
            f"{each.ratio_low:.2f} to {each.ratio_high:.2f}",
            f"{each.rate:,.0f}",
            f"{each.p50_milliseconds:.2f}",
            f"{each.p99_milliseconds:.2f}",
            _figure(each.server_cpu_micros),
            _of_empty(each, empty),
            _figure(each.database_cpu_micros),
            _figure(each.client_cpu_micros),
        )


def bars(found: Report) -> Iterator[tuple[str, ...]]:
    """Yield what figures are held to."""
    for bar in found.bars:
        bound = f"{bar.relation} {bar.bound:g}"
        yield bar.name, f"{bar.figure:.2f}", bound, "yes" if bar.holds else "no"


def growth_rows(sizes: list[Size]) -> Iterator[tuple[str, ...]]:
    """Yield the figures at each size."""
    for size in sizes:
        figures = (size.entries, size.transfers, size.balances, size.pages, size.verified)
        yield (size.engine, *(f"{figure:,.0f}" for figure in figures))


def markdown(headings: tuple[str, ...], lines: Iterator[tuple[str, ...]]) -> str:
    """Return a table as Markdown, its first column to the left."""
    marks = ("---", *("---:" for _ in headings[1:]))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, marks, *lines))


def narrow(found: Report) -> str:
    """Return the table as Markdown without its last columns, no line of it broken."""
    lines = (tuple(_unbroken(cell) for cell in row[:7]) for row in rows(found))
    return markdown(HEADINGS[:7], lines)


def write_chart(found: Report, path: Path) -> None:
    """Write the ratios of a few cases as bars."""
    by_name = {each.name: each for each in found.results}
    shown = [by_name[name] for name in CHARTED if name in by_name]
    scale = (_WIDTH - _FIGURE) / max(each.ratio for each in shown)
    height = _ROW * len(shown)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        "<title>Durable transfers a second, the best pgbench as 1</title>",
        "<style>@media (prefers-color-scheme: dark) { text { fill: #a3b1b6 } }</style>",
        '<g font-family="system-ui, sans-serif" font-size="14" fill="#56636a">',
        *(_bar(each, _ROW * index, scale) for index, each in enumerate(shown)),
        "</g></svg>",
    ]
    path.write_text("\n".join(parts) + "\n")


def _bar(each: Result, top: int, scale: float) -> str:
    """Return a bar with its figure behind it, under its name."""
    colour = "#0f7b6c" if each.name.startswith(("postgresql", "sqlite")) else "#8a8f98"
    width = max(each.ratio * scale, 1)
    bar = top + 20
    return (
        f'<text x="0" y="{bar - 6}">{escape(each.name)}</text>'
        f'<rect x="0" y="{bar}" width="{width:.0f}" height="{_BAR}" rx="3" fill="{colour}"/>'
        f'<text x="{width + 8:.0f}" y="{bar + _BAR - 4}">{each.ratio:.2f}</text>'
    )


def _table(title: str, headings: tuple[str, ...], lines: Iterator[tuple[str, ...]]) -> Table:
    table = Table(title=title)
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index else "left")
    for line in lines:
        table.add_row(*line)
    return table


def _unbroken(cell: str) -> str:
    return cell.replace(" ", "\N{NO-BREAK SPACE}")


def _figure(micros: float) -> str:
    return f"{micros:.0f}" if micros else ""


def _of_empty(each: Result, empty: Result | None) -> str:
    if empty is None or not each.server_cpu_micros:
        return ""
    return f"{each.server_cpu_micros / empty.server_cpu_micros:.1f}x"
