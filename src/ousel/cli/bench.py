"""`ousel bench`: measures how many durable transfers per second this installation can do."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ousel.cli.console import JsonOption, error_console, fail, show_list
from ousel.cli.databases import temporary_database
from ousel.workload import plans, sample_data
from ousel.workload.flushes import flush_seconds
from ousel.workload.load import LoadPlan
from ousel.workload.processes import MeasurementFailed, Server, ousel_server, run_load_process

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
            help="An empty PostgreSQL database to fill; default: a temporary SQLite file.",
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(help="How long each load lasts.", min=0.1)] = 3.0,
    *,
    as_json: JsonOption = False,
) -> None:
    """Measure this machine with a temporary server and a load over HTTP."""
    # Measured transfers must not mix with real money.
    reason = "the database is not empty: a measurement needs an empty one"
    try:
        with temporary_database(database, message=reason, folder=Path()) as url:
            data = sample_data.create_sample_data(url, PARTNERS, RECIPIENTS)
            # The warnings of the server would be about settings that a measurement does not use.
            with ousel_server(url, OUSEL_LOG_LEVEL="error") as server:
                rows = list(_measure(server, data, seconds))
            verification = sample_data.verify_ledger(url)
    except MeasurementFailed as failure:
        fail(str(failure))
    show_list(rows, as_json=as_json)
    if not as_json:
        error_console().print(f"The ledger balances: {verification.transfers} transfers.")


def _measure(
    server: Server, data: sample_data.SampleData, seconds: float
) -> Iterator[dict[str, Any]]:
    flush = flush_seconds(Path())
    yield _row("a flush to this disk", 1 / flush, flush, flush)
    for connections in CONNECTIONS:
        plan = plans.read_plan(server, [("/healthz", {})], connections, seconds)
        yield _load_row(f"a health check, {connections} at once", plan)
    for connections in CONNECTIONS:
        plan = plans.transfer_plan(server, data, "hot", connections, seconds)
        yield _load_row(f"a transfer, {connections} at once", plan)


def _load_row(name: str, plan: LoadPlan) -> dict[str, Any]:
    result = run_load_process(plan)
    return _row(name, result.rate, result.p50_seconds, result.p99_seconds)


def _row(name: str, rate: float, p50_seconds: float, p99_seconds: float) -> dict[str, Any]:
    return {
        "what": name,
        "per_second": round(rate),
        "p50_ms": round(p50_seconds * _MILLIS, 3),
        "p99_ms": round(p99_seconds * _MILLIS, 3),
    }
