"""`ousel top`: the metrics of a running server, live in the terminal."""

import contextlib
import time
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ousel.cli.console import JsonOption, print_json
from ousel.cli.databases import settings
from ousel.cli.scrapes import Interval, Scrape, scrape
from ousel.cli.server import address_at

ADMIN_PORT_DEFAULT: Final = 9464
INTERVAL_SECONDS: Final = 2.0
ROWS_MAX: Final = 8
_MILLISECONDS: Final = 1_000
_REQUESTS: Final = "ousel_http_requests_total"
_DURATIONS: Final = "ousel_http_request_duration_seconds"
_BATCHES: Final = "ousel_posting_batch_postings"
_TRANSACTIONS: Final = "ousel_posting_transaction_seconds"


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown at one time; durations and means are null where nothing happened."""

    processes: int
    requests_per_second: float
    request_ms_p50: float | None
    request_ms_p99: float | None
    routes_per_second: dict[str, float]
    refusals_per_second: dict[str, float]
    postings_per_second: float
    batches_per_second: float
    batch_postings_mean: float | None
    transaction_ms_p99: float | None
    queue_length: int
    connections_in_use: int
    abandoned_commits: int
    writes_suspended: bool
    mail_waiting: int | None
    mail_failed: int | None
    charges: dict[str, int]
    ledger: dict[str, float] | None


def top(
    *,
    url: Annotated[
        list[str] | None,
        typer.Option(
            help="The admin address of a process, such as http://127.0.0.1:9464; may be repeated."
        ),
    ] = None,
    interval: Annotated[
        float, typer.Option(help="Seconds between two updates.", min=0.1, max=3600)
    ] = INTERVAL_SECONDS,
    once: Annotated[bool, typer.Option("--once", help="Print one frame and end.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a running server's rates, durations, batches and ledger totals, live."""
    addresses = [each.rstrip("/") for each in url] if url else [_own_address()]
    before = scrape(addresses)
    if once or as_json:
        time.sleep(interval)
        frame = frame_of(Interval(before, scrape(addresses)), len(addresses))
        if as_json:
            print_json(frame)
        else:
            Console().print(_render(frame))
        return
    with contextlib.suppress(KeyboardInterrupt), Live(auto_refresh=False, screen=True) as live:
        while True:
            time.sleep(interval)
            after = scrape(addresses)
            frame = frame_of(Interval(before, after), len(addresses))
            live.update(_render(frame), refresh=True)
            before = after


def frame_of(interval: Interval, processes: int) -> Frame:
    """Return what happened between two scrapes of this many processes."""
    now = interval.after
    postings = interval.rate(f"{_BATCHES}_sum")
    return Frame(
        processes=processes,
        requests_per_second=interval.rate(_REQUESTS),
        request_ms_p50=_ms(interval.quantile(_DURATIONS, 0.5)),
        request_ms_p99=_ms(interval.quantile(_DURATIONS, 0.99)),
        routes_per_second=interval.rates(_REQUESTS, "route"),
        refusals_per_second=interval.rates("ousel_refusals_total", "code"),
        postings_per_second=postings,
        batches_per_second=interval.rate(f"{_BATCHES}_count"),
        batch_postings_mean=interval.mean(_BATCHES),
        transaction_ms_p99=_ms(interval.quantile(_TRANSACTIONS, 0.99)),
        queue_length=int(now.total("ousel_posting_queue_length")),
        connections_in_use=int(now.total("ousel_database_connections", state="in_use")),
        abandoned_commits=int(now.total("ousel_database_abandoned_commits")),
        writes_suspended=now.total("ousel_database_writes_suspended") > 0,
        mail_waiting=_shared(now, "ousel_mail_waiting"),
        mail_failed=_shared(now, "ousel_mail_failed"),
        charges={
            outcome: int(count)
            for outcome, count in now.totals_by("ousel_charges_total", "outcome").items()
        },
        ledger=_ledger(now),
    )


def _shared(now: Scrape, name: str) -> int | None:
    """Return a figure of the database, which is the same in every process, or None if unknown."""
    return round(now.mean(name)) if name in now.samples else None


def _ledger(now: Scrape) -> dict[str, float] | None:
    """Return the ledger's totals, which are the same in every process."""
    if "ousel_ledger_entries" not in now.samples:
        return None
    return {
        name: now.mean(f"ousel_ledger_{name}")
        for name in ("entries", "accounts", "issued_ousd", "balances_sum_millionths")
    }


def _own_address() -> str:
    configured = settings(None)
    return address_at(configured.admin_host, configured.admin_port or ADMIN_PORT_DEFAULT)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * _MILLISECONDS


def _render(frame: Frame) -> RenderableType:
    work = _pairs(
        {
            "requests/s": _figure(frame.requests_per_second),
            "p50, p99": f"{_figure(frame.request_ms_p50)}, {_figure(frame.request_ms_p99)} ms",
            "postings/s": _figure(frame.postings_per_second),
            "batches/s": _figure(frame.batches_per_second),
            "postings per batch": _figure(frame.batch_postings_mean),
            "transaction p99": f"{_figure(frame.transaction_ms_p99)} ms",
            "queue": str(frame.queue_length),
            "connections in use": str(frame.connections_in_use),
            "abandoned commits": str(frame.abandoned_commits),
            "writes": "suspended" if frame.writes_suspended else "accepted",
            "mail waiting": _count(frame.mail_waiting),
            "mail given up": _count(frame.mail_failed),
        }
    )
    charges = _pairs({outcome: f"{count:,}" for outcome, count in frame.charges.items()})
    processes = "1 process" if frame.processes == 1 else f"{frame.processes} processes"
    return Group(
        _side_by_side(
            Panel(work, title=processes),
            Group(
                Panel(_ledger_panel(frame), title="books"),
                Panel(charges, title="charges since start"),
            ),
        ),
        _side_by_side(
            Panel(_rates(frame.routes_per_second), title="requests/s by route"),
            Panel(_rates(frame.refusals_per_second), title="refusals/s"),
        ),
    )


def _side_by_side(left: RenderableType, right: RenderableType) -> Table:
    table = Table.grid(expand=True)
    table.add_column(ratio=1)
    table.add_column(ratio=1)
    table.add_row(left, right)
    return table


def _ledger_panel(frame: Frame) -> RenderableType:
    if frame.ledger is None:
        return Text("the totals could not be read", style="bold red")
    balance = frame.ledger["balances_sum_millionths"]
    return Group(
        _pairs(
            {
                "accounts": f"{frame.ledger['accounts']:,.0f}",
                "entries": f"{frame.ledger['entries']:,.0f}",
                "issued": f"{frame.ledger['issued_ousd']:,.2f} OUSD",
            }
        ),
        Text("the books balance", style="green")
        if balance == 0
        else Text(f"THE BOOKS ARE OFF BY {balance:,.0f} MILLIONTHS", style="bold red"),
    )


def _rates(rates: dict[str, float]) -> RenderableType:
    if not rates:
        return Text("none", style="dim")
    return _pairs({name: _figure(rate) for name, rate in list(rates.items())[:ROWS_MAX]})


def _pairs(values: dict[str, Any]) -> Table:
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column()
    table.add_column(justify="right", no_wrap=True)
    for name, value in values.items():
        table.add_row(Text(name), Text(value))
    return table


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"  # noqa: PLR2004 - needs no decimals
