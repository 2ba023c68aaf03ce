"""The admin port: for operators alone, one for each process, and never in the service's way."""

import socket
from pathlib import Path

import httpx2
import psutil
import pytest
import structlog

from ousel.app import Ousel
from ousel.kernel.settings import Settings
from tests.cli.commands import assert_fails, ousel
from tests.observation.posts import Post
from tests.support.aside import Aside
from tests.support.engines import Engines
from tests.support.servers import Server, free_port


def test_probes_and_metrics_are_all_there_is(post: Post) -> None:
    """Nothing of the interface, the portal or the docs answers there, and nothing can be sent."""
    assert post.get("/healthz").json() == {"status": "ok"}
    assert post.get("/readyz").json()["status"] == "ok"
    assert post.get("/metrics").headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert post.get("/metrics", "HEAD").content == b""
    for path in ("/", "/v1/me", "/login", "/docs", "/metrics/", "/metricsx"):
        assert post.get(path).status_code == 404
    refused = post.get("/metrics", "POST")
    assert refused.status_code == 405
    assert refused.headers["Allow"] == "GET, HEAD"


def test_the_public_port_tells_no_metrics(post: Post) -> None:
    """What partners reach has the probes, and not the figures."""
    assert httpx2.get(f"{post.server.origin}/metrics", verify=False).status_code == 404
    assert httpx2.get(f"{post.server.origin}/readyz", verify=False).status_code == 200


def test_there_is_none_unless_it_is_asked_for(tmp_path: Path, engines: Engines) -> None:
    """By default a server listens on its one public port and no other."""
    with Server(engines.fresh_url("sqlite", tmp_path)) as running:
        assert _ports(running) == {running.port}


async def test_readiness_says_why_not(engines: Engines, tmp_path: Path) -> None:
    """A schema that is too old: 503 with code and reason, while the process lives."""
    url, port = engines.fresh_url("sqlite", tmp_path), free_port()
    with Server(url, OUSEL_ADMIN_PORT=str(port)):
        async with Aside(url) as aside:
            await aside.run("UPDATE alembic_version SET version_num = '0001'")
        ready = httpx2.get(f"http://127.0.0.1:{port}/readyz", verify=False)
        alive = httpx2.get(f"http://127.0.0.1:{port}/healthz", verify=False)

    assert (ready.status_code, ready.json()["code"]) == (503, "schema_outdated")
    assert "is needed" in ready.json()["detail"]
    assert alive.status_code == 200


def test_a_port_that_is_taken_is_told_at_the_start(tmp_path: Path) -> None:
    """One line, before anything is served."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = ousel("serve", f"--admin-port={port}", database=str(tmp_path / "ousel.db"))

    assert_fails(outcome, f"cannot listen on 127.0.0.1, port {port}")


def test_every_process_needs_a_port(engines: Engines, tmp_path: Path) -> None:
    """More of them than there are ports left is told at the start as well."""
    url = engines.fresh_url("postgresql", tmp_path)

    outcome = ousel("serve", "--admin-port=65535", "--workers=2", database=url)

    assert_fails(outcome, "choose a lower admin port")


async def test_the_service_goes_on_without_its_admin_port(engines: Engines, tmp_path: Path) -> None:
    """A port that somebody took since is no reason to stop serving; the log says so."""
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        structlog.testing.capture_logs() as log,
    ):
        port = taken.getsockname()[1]
        url = engines.fresh_url("sqlite", tmp_path)
        service = Ousel(Settings(database_url=url, admin_port=port))
        async with (
            service.running(),
            httpx2.AsyncClient(
                transport=httpx2.ASGITransport(service), base_url="http://x"
            ) as client,
        ):
            assert (await client.get("/readyz")).status_code == 200

    assert [line["log_level"] for line in log if "not to be had" in line["event"]] == ["error"]


@pytest.mark.slow
def test_each_worker_has_a_port_of_its_own(engines: Engines, tmp_path: Path) -> None:
    """Two processes answer on two ports, each for itself; one that is started anew is back."""
    url, port = engines.fresh_url("postgresql", tmp_path), _two_free_ports()
    with Server(url, "--workers=2", OUSEL_ADMIN_PORT=str(port)) as running:
        addresses = [f"http://127.0.0.1:{port + number}" for number in range(2)]
        counted = _counted(addresses)
        for _ in range(20):
            httpx2.get(f"{running.base_url}/nothing", verify=False)
        grown = [after - before for before, after in zip(counted, _counted(addresses), strict=True)]
        assert sum(grown) == 20


def _counted(addresses: list[str]) -> list[float]:
    texts = [_waited_for(f"{address}/metrics") for address in addresses]
    prefix = 'ousel_refusals_total{code="not_found"} '
    return [
        sum(
            float(line.removeprefix(prefix))
            for line in text.splitlines()
            if line.startswith(prefix)
        )
        for text in texts
    ]


def _waited_for(url: str) -> str:
    transport = httpx2.HTTPTransport(retries=5)  # the second worker may still be starting
    with httpx2.Client(transport=transport) as client:
        return client.get(url).text


def _two_free_ports() -> int:
    """Return a free port whose next is free as well."""
    while True:
        port = free_port()
        with socket.socket() as next_one:
            if next_one.connect_ex(("127.0.0.1", port + 1)) != 0:
                return port


def _ports(running: Server) -> set[int]:
    listening = psutil.Process(running.process.pid).net_connections("tcp")
    return {each.laddr.port for each in listening if each.status == psutil.CONN_LISTEN}
