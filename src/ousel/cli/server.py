"""Running the server: the checks before it starts, and the processes that it runs in."""

import os
import signal
import socket
from difflib import get_close_matches
from functools import partial
from typing import Any, Final, cast

import uvicorn
from typing_extensions import override

from ousel.app.ousel import Ousel
from ousel.cli.console import check_host, fail, fail_to_listen
from ousel.cli.databases import DATABASE_IS_LIVE, check_schema
from ousel.cli.supervisor import Heartbeat, Supervisor, stop_with_parent
from ousel.database import schema
from ousel.database.addresses import is_postgres, open_database
from ousel.database.deployment import Mode, claim_mode
from ousel.http.connection import Connection, ServerState
from ousel.http.listeners import listen
from ousel.http.turns import Turns
from ousel.kernel.logs import EventLogger
from ousel.kernel.settings import PORT_MAX, PREFIX, Settings, setting_names
from ousel.observation.logs import log_to_standard_error
from ousel.observation.telemetry import check_tracing
from ousel.people.factor_secrets import FactorSecrets
from ousel.people.secret_file import secret_file_of
from ousel.sealed_log.keys import KeyHolder
from ousel.sealed_log.log import witnesses_of
from ousel.sealed_log.published import CheckpointRecorder

DRAIN_SECONDS_MAX: Final = 30
KEEP_ALIVE_SECONDS: Final = 75  # longer than most clients wait, so that they close first
CONNECTIONS_WAITING_MAX: Final = 2_048
WORKER_STOP_SECONDS_MAX: Final = DRAIN_SECONDS_MAX + 15  # time to write the queued postings

_log = EventLogger()


class _UvicornState(uvicorn.server.ServerState):
    """Uvicorn's shared state, and the turns that our connections take."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = Turns()


class _UvicornConnection(Connection):
    """A connection with the constructor that uvicorn's server calls."""

    def __init__(self, config: uvicorn.Config, server_state: ServerState, **_: Any) -> None:
        self._service = cast("Ousel", config.app)
        super().__init__(self._service, server_state, config.timeout_keep_alive)

    @override
    def shutdown(self) -> None:
        super().shutdown()
        # Those who wait are answered later, when all connections have been told to close.
        self._service.services.end_waits()


async def prepare_to_serve(
    settings: Settings, port: int, workers: int, *, migrates: bool = False
) -> None:
    """Check all that a server needs, from settings to keys; create or migrate an SQLite file.

    With `migrates`, migrate a PostgreSQL database too.
    """
    embedded = not is_postgres(settings.database_url)
    if embedded and workers > 1:
        fail("an SQLite database is served by one process: use PostgreSQL for more workers")
    if settings.sandbox and not settings.base_path:  # a page has the address /sandbox/mail
        fail("a sandbox needs a path in OUSEL_BASE_URL, such as /v1")
    _check_observation(settings, port, workers)
    witnesses_of(settings)  # fails here if they are malformed, not in each worker
    async with open_database(settings.database_url) as database:
        version = await schema.schema_version(database, settings.database_url)
        if (embedded or migrates) and not schema.is_supported(version):
            await schema.migrate(settings.database_url)
        await check_schema(database, settings.database_url)
        holder = KeyHolder(settings)
        await holder.read(database, creates=False)
        await CheckpointRecorder(database, holder).check()
        await FactorSecrets(database, secret_file_of(settings)).prepare()


async def claim_database_mode(settings: Settings) -> None:
    """Set the mode of a new database, live or test, permanently; fail if it has the other mode.

    This is the last check, so that a server that cannot start does not set the mode.
    """
    wanted: Mode = "test" if settings.sandbox else "live"
    async with open_database(settings.database_url) as database:
        mode = await database.write(lambda transaction: claim_mode(transaction, wanted))
    if mode != wanted:
        fail(
            DATABASE_IS_LIVE
            if mode == "live"
            else "this database is a sandbox: serve it with --sandbox"
        )


def listen_or_fail(host: str, port: int, option: str = "--port") -> socket.socket:
    """Return a socket that listens on this address, or fail and name the option of the port."""
    check_host(host)
    try:
        return listen(host, port, CONNECTIONS_WAITING_MAX)
    except OSError as error:
        fail_to_listen(host, port, error, option)


def address_at(host: str, port: int) -> str:
    """Return the URL of a server at this host and port."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def serve_until_stopped(settings: Settings, listener: socket.socket, workers: int = 1) -> None:
    """Serve until a signal stops the server and the accepted requests are answered."""
    _warn_of_misspelt_settings()
    if not settings.sandbox and settings.mail_url is None:
        _log.warning(
            "OUSEL_MAIL_URL is not set: this server sends no mail, and emails can be confirmed only"
            " by 'ousel account vouch'"
        )
    if settings.secret_file is None and is_postgres(settings.database_url):
        _log.warning("OUSEL_SECRET_FILE is not set: nobody can set up an authenticator app")
    if settings.log_key_file is None and is_postgres(settings.database_url):
        _log.warning(
            "OUSEL_LOG_KEY_FILE is not set: this server signs no checkpoints and no receipts"
        )
    if workers > 1:
        serve = partial(_serve_in_worker, settings, listener, workers)
        Supervisor(serve, listener, workers, WORKER_STOP_SECONDS_MAX).run()
    else:
        _stop_on_hangup()
        _server(Ousel(settings)).run(sockets=[listener])


def _warn_of_misspelt_settings() -> None:
    """Name each variable that resembles a setting; those of clients and tests resemble none."""
    known = {name.removeprefix(PREFIX): name for name in sorted(setting_names())}
    for variable in sorted(each for each in os.environ if each.startswith(PREFIX)):
        closest = get_close_matches(variable.removeprefix(PREFIX), known, n=1, cutoff=0.8)
        if closest and variable != (setting := known[closest[0]]):
            _log.warning(f"{variable} has no effect: it is no setting, but {setting} is")


def _serve_in_worker(
    settings: Settings, listener: socket.socket, workers: int, heartbeat: Heartbeat
) -> None:
    log_to_standard_error(settings.log_level)
    stop_with_parent()
    server = _server(Ousel(settings, processes=workers))
    heartbeat.start(server)
    server.run(sockets=[listener])


def _server(service: Ousel) -> uvicorn.Server:
    server = uvicorn.Server(
        uvicorn.Config(
            service,
            loop="uvloop",
            http=_UvicornConnection,
            interface="asgi3",
            proxy_headers=False,
            ws="none",
            lifespan="on",
            access_log=False,
            log_config=None,
            server_header=False,
            backlog=CONNECTIONS_WAITING_MAX,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=DRAIN_SECONDS_MAX,
        )
    )
    server.server_state = _UvicornState()
    return server


def _stop_on_hangup() -> None:
    """Stop in an orderly way when the terminal is closed, unless SIGHUP is ignored."""
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))


def _check_observation(settings: Settings, port: int, workers: int) -> None:
    """Check that every process gets an admin port, and that tracing is installed if it is on."""
    check_tracing(settings)
    if settings.admin_port is None:
        return
    if settings.admin_port + workers - 1 > PORT_MAX:
        fail(
            f"{workers} processes use {workers} consecutive admin ports, and the last would be"
            f" above {PORT_MAX}: choose a lower admin port"
        )
    admin_ports = range(settings.admin_port, settings.admin_port + workers)
    if port in admin_ports:
        fail(f"port {port} is used by the service itself; choose another with --admin-port")
    for admin_port in admin_ports:
        listen_or_fail(settings.admin_host, admin_port, "--admin-port").close()
