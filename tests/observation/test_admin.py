"""The admin port: for operators only, one for each process, never blocking the service."""

import socket
from pathlib import Path

import httpx2
import psutil
import pytest

from ousel.app.ousel import Ousel
from ousel.kernel.settings import Settings
from tests.cli.commands import assert_fails, ousel
from tests.observation.observed_server import ObservedServer, Scraped
from tests.support.engines import Engines
from tests.support.in_process import InProcessTransport, in_process_client
from tests.support.logs import captured_logs
from tests.support.ports import free_port
from tests.support.raw_http import exchange
from tests.support.raw_sql import RawSql
from tests.support.server import Server, wait_for_http

REFUSED = "ousel_refusals_total"
STARTED = "process_start_time_seconds"


@pytest.mark.slow
def test_the_admin_port_serves_only_probes_and_metrics(observed: ObservedServer) -> None:
    """Nothing of the interface, the portal or the docs answers there, and nothing can be sent."""
    assert observed.get_admin("/healthz").json() == {"status": "ok"}
    assert observed.get_admin("/readyz").json()["status"] == "ok"
    assert (
        observed.get_admin("/metrics")
        .headers["Content-Type"]
        .startswith("text/plain; version=0.0.4")
    )
    assert observed.get_admin("/metrics", "HEAD").content == b""
    for path in ("/", "/v1/me", "/login", "/docs", "/metrics/", "/metricsx"):
        assert observed.get_admin(path).status_code == 404
    refused = observed.get_admin("/metrics", "POST")
    assert refused.status_code == 405
    assert refused.headers["Allow"] == "GET, HEAD"


async def test_malformed_bytes_are_refused_there_too(observed: ObservedServer) -> None:
    """Bytes that are not a request are refused."""
    answer = await exchange(observed.admin_port, b"noise\r\n\r\n")

    assert (answer.status_code, answer.text) == (400, "The HTTP request is not valid.\n")


def test_the_public_port_tells_no_metrics(observed: ObservedServer) -> None:
    """The public port serves the probes but not the metrics."""
    assert httpx2.get(f"{observed.origin}/metrics", verify=False).status_code == 404
    assert httpx2.get(f"{observed.origin}/readyz", verify=False).status_code == 200


def test_it_listens_for_this_machine_alone(observed: ObservedServer) -> None:
    """Unless configured otherwise, the port is reachable from this machine only."""
    port = observed.admin_port

    assert _hosts(psutil.Process(observed.process.pid), port) == {"127.0.0.1"}


def test_there_is_none_unless_it_is_asked_for(
    shared_server: Server,
) -> None:
    """By default a server listens on its one public port and no other."""
    running = shared_server

    assert _listening(psutil.Process(running.process.pid)) == {running.port}


async def test_readiness_states_the_reason(file_url: str) -> None:
    """A schema that is too old: 503 with code and reason, while the process lives."""
    port, host = free_port(), "127.0.0.2"
    async with RawSql(file_url) as raw_sql:
        await raw_sql.run("UPDATE alembic_version SET version_num = '0001'")
    async with (
        in_process_client(file_url, admin_port=port, admin_host=host),
        httpx2.AsyncClient(base_url=f"http://{host}:{port}", verify=False) as client,
    ):
        ready, alive = await client.get("/readyz"), await client.get("/healthz")

    assert (ready.status_code, ready.json()["code"]) == (503, "schema_outdated")
    assert "is needed" in ready.json()["detail"]
    assert alive.status_code == 200


def test_a_port_in_use_is_reported_at_startup(tmp_path: Path) -> None:
    """One line, before anything is served."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = ousel("serve", f"--admin-port={port}", database=str(tmp_path / "ousel.db"))

    assert_fails(outcome, f"cannot listen on 127.0.0.1, port {port}: the port is taken")
    assert outcome.errors.endswith("choose another with --admin-port\n")


@pytest.mark.slow
def test_every_process_needs_a_port(engines: Engines, tmp_path: Path) -> None:
    """More processes than remaining ports is an error at the start."""
    url = engines.fresh_url("postgresql", tmp_path)

    outcome = ousel("serve", "--admin-port=65535", "--workers=2", database=url)

    assert_fails(outcome, "choose a lower admin port")


@pytest.mark.slow
def test_the_port_of_the_service_is_not_its_admin_port(engines: Engines, tmp_path: Path) -> None:
    """The admin port of no process may be the port of the service."""
    url = engines.fresh_url("postgresql", tmp_path)
    port = free_port()
    outcome = ousel(
        "serve", f"--port={port}", f"--admin-port={port - 1}", "--workers=2", database=url
    )

    assert_fails(
        outcome, f"port {port} is used by the service itself; choose another with --admin-port"
    )


async def test_the_service_goes_on_without_its_admin_port(file_url: str) -> None:
    """If the port is taken meanwhile, the process serves without it and logs that."""
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        captured_logs() as log,
    ):
        port = taken.getsockname()[1]
        service = Ousel(Settings(database_url=file_url, admin_port=port))
        async with (
            service.running(),
            httpx2.AsyncClient(
                transport=InProcessTransport(service), base_url="http://x"
            ) as client,
        ):
            assert (await client.get("/readyz")).status_code == 200

    assert [line["level"] for line in log if "no admin port is free" in line["event"]] == ["error"]


@pytest.mark.slow
def test_each_worker_has_a_port_of_its_own(engines: Engines, tmp_path: Path) -> None:
    """Each of two processes has its own port; a restarted process has its port again."""
    url, port = engines.fresh_url("postgresql", tmp_path), free_port()
    with Server(url, "--workers=2", OUSEL_ADMIN_PORT=str(port)) as running:
        before = [_when_it_answers(port), _when_it_answers(port + 1)]
        for _ in range(20):
            httpx2.get(f"{running.base_url}/nothing", verify=False)
        after = [_when_it_answers(port), _when_it_answers(port + 1)]
        grown = sum(each.value(REFUSED) for each in after) - sum(
            each.value(REFUSED) for each in before
        )
        assert grown == 20

        _worker_on(port + 1, running).kill()
        anew = _when_it_answers(port + 1)
        assert anew.value(STARTED) > after[1].value(STARTED)
        assert _when_it_answers(port).value(STARTED) == after[0].value(STARTED)


def _when_it_answers(port: int) -> Scraped:
    """Return the metrics at this port, as soon as a worker has it."""
    url = f"http://127.0.0.1:{port}/metrics"
    wait_for_http(url)
    return Scraped(httpx2.get(url, verify=False).text)


def _worker_on(port: int, running: Server) -> psutil.Process:
    """Return the process that listens on this port."""
    workers = psutil.Process(running.process.pid).children()
    (found,) = (worker for worker in workers if port in _listening(worker))
    return found


def _listening(process: psutil.Process) -> set[int]:
    """Return the ports that a process listens on."""
    connections = process.net_connections("tcp")
    return {each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN}


def _hosts(process: psutil.Process, port: int) -> set[str]:
    """Return the addresses at which a process listens on this port."""
    listening = [
        each for each in process.net_connections("tcp") if each.status == psutil.CONN_LISTEN
    ]
    return {each.laddr.ip for each in listening if each.laddr.port == port}
