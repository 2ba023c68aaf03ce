"""`ousel serve`."""

import asyncio
import sys
from typing import Annotated, Any, Final

import typer

from ousel.cli.console import DatabaseOption, JsonOption, show
from ousel.cli.databases import settings
from ousel.cli.server import (
    address_at,
    claim_database_mode,
    listen_or_fail,
    prepare_to_serve,
    serve_until_stopped,
)
from ousel.kernel.settings import PORT_DEFAULT, PORT_MAX
from ousel.observation.logs import log_to_standard_error

WORKERS_MAX: Final = 64


def serve(  # noqa: PLR0913 - one for each option
    *,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="The port to listen on.", min=1, max=PORT_MAX)
    ] = PORT_DEFAULT,
    workers: Annotated[
        int,
        typer.Option(
            help="The number of worker processes; more than one needs PostgreSQL.",
            min=1,
            max=WORKERS_MAX,
        ),
    ] = 1,
    sandbox: Annotated[
        bool,
        typer.Option("--sandbox", help="Run a sandbox, with test keys and endpoints for tests."),
    ] = False,
    admin_port: Annotated[
        int | None,
        typer.Option(
            help="The port for metrics and health checks; default: OUSEL_ADMIN_PORT.",
            min=1,
            max=PORT_MAX,
        ),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run the service."""
    changes: dict[str, Any] = {"sandbox": True} if sandbox else {}
    if admin_port is not None:
        changes["admin_port"] = admin_port
    server_settings = settings(database, port, **changes)
    log_to_standard_error(server_settings.log_level)
    asyncio.run(prepare_to_serve(server_settings, port, workers))
    with listen_or_fail(host, port) as listener:
        asyncio.run(claim_database_mode(server_settings))
        if as_json or sys.stdout.isatty():  # otherwise the record would end up in the log
            mode = "sandbox" if server_settings.sandbox else "live"
            addresses = {
                "base_url": server_settings.base_url,
                "portal_url": server_settings.portal_url,
            }
            record = {"mode": mode, "listening": address_at(host, port), **addresses}
            show(record | {"workers": workers}, as_json=as_json)
        serve_until_stopped(server_settings, listener, workers)
