"""`ousel bench`: how many durable transfers a second this installation makes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ousel.cli.console import JsonOption, error_console, fail, show_list, temporary_database
from ousel.workload import plans, sample_data
from ousel.workload.flushes import flush_seconds
from ousel.workload.load import Plan
from ousel.workload.processes import Failure, Server, load, ousel_server

PARTNERS: Final = 16
RECIPIENTS: Final = 1_000
CONNECTIONS: Final = (1, 16, 64, 256)

_MILLIS: Final = 1_000


def bench(
    database: Annotated[
        str | None,
        typer.Option(
            "--database",
            metavar="URL",
            help="An empty PostgreSQL database to fill; default: an SQLite file, removed after.",
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(help="How long each load lasts.", min=1)] = 3.0,
    *,
    as_json: JsonOption = False,
) -> None:
    """Measure this machine: a server of its own, and loads on it over HTTP."""
    # Money that is only measured must mix with no other.
    reason = "this database is in use: a measurement needs an empty one"
    try:
        with temporary_database(database, message=reason, folder=Path()) as url:
            filled = sample_data.opened(url, PARTNERS, RECIPIENTS)
            with ousel_server(url) as server:
                lines = list(_measured(server, filled, seconds))
            proof = sample_data.proven(url)
    except Failure as failure:
        fail(str(failure))
    show_list(lines, as_json=as_json)
    if not as_json:
        error_console.print(f"The books balance: {proof.transfers} transfers.")


def _measured(
    server: Server, filled: sample_data.Books, seconds: float
) -> Iterator[dict[str, Any]]:
    flush = flush_seconds(Path())
    yield _line("a flush to this disk", 1 / flush, flush, flush)
    for connections in CONNECTIONS:
        plan = plans.reads(server, [("/healthz", {})], connections, seconds)
        yield _loaded(f"an empty answer, {connections} at once", plan)
    for connections in CONNECTIONS:
        plan = plans.transfers(server, filled, "hot", connections, seconds)
        yield _loaded(f"a transfer, {connections} at once", plan)


def _loaded(name: str, plan: Plan) -> dict[str, Any]:
    tally = load(plan)
    return _line(name, tally.rate, tally.p50_seconds, tally.p99_seconds)


def _line(name: str, rate: float, p50_seconds: float, p99_seconds: float) -> dict[str, Any]:
    return {
        "what": name,
        "per_second": round(rate),
        "p50_ms": round(p50_seconds * _MILLIS, 2),
        "p99_ms": round(p99_seconds * _MILLIS, 2),
    }
