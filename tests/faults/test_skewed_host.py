"""Servers and commands on a host whose clock is wrong, beside a host whose clock is right."""

import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import httpx2
import pytest
from typing_extensions import override

from ousel.kernel.clock import micros_from_timestamp, system_clock
from tests.cli.commands import OUSEL, ousel
from tests.support import skewed_host
from tests.support.engines import Engines
from tests.support.faketime import faketime_library, remove_shared_memory
from tests.support.ports import free_port
from tests.support.seeded import SeededServer, run_seeded_server
from tests.support.server import Server

pytestmark = pytest.mark.slow

SHIFTED, LIBFAKETIME = "shifted", "libfaketime"  # for Python alone, or for the whole process
THREE_HOURS = 3 * 3600
DAYS_400 = 400 * 24 * 3600
MEASURING_SECONDS_MAX = 60  # how long a busy machine may take to measure the clock


@pytest.fixture(scope="module")
def right(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeededServer]:
    """A server on a host whose clock is right, on PostgreSQL, with a partner and people."""
    url = engines.fresh_url("postgresql", tmp_path_factory.mktemp("right"))
    with run_seeded_server(url) as running:
        yield running


class SkewedServer(Server):
    """A server on a host whose clock is wrong, which keeps it from being ready."""

    ready_path = "/healthz"

    def __init__(self, database_url: str, way: str, seconds: int) -> None:
        self.admin_port = free_port()
        super().__init__(database_url, "--admin-port", str(self.admin_port))
        self._command[:1] = ousel_on_skewed_host(way, seconds)

    @override
    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        remove_shared_memory()

    def get(self, path: str) -> int:
        """Return the status of the answer, or 0 if there is none."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()


def ousel_on_skewed_host(way: str, seconds: int) -> list[str]:
    """Return the beginning of a command line that runs `ousel` with the wrong clock."""
    if way == LIBFAKETIME:
        # The command `faketime` passes no signals on to the program that it runs; `env` becomes it.
        return ["env", f"LD_PRELOAD={faketime_library()}", f"FAKETIME={seconds:+d}", str(OUSEL)]
    return [sys.executable, "-m", skewed_host.__name__, str(seconds)]


def call(server: Server, right: SeededServer, path: str, body: Any = None) -> Any:
    """Return the JSON that a server answers to the partner."""
    answer = httpx2.request(
        "GET" if body is None else "POST",
        f"{server.base_url}{path}",
        headers={"Authorization": f"Bearer {right.key}"},
        json=body,
        verify=False,
    )
    assert answer.is_success, answer.text
    return answer.json()


def balance_of_ada(right: SeededServer) -> float:
    """Return Ada's balance."""
    shown = ousel("account", "show", "@ada", "--json", database=right.url).json
    return float(shown["balance"])


def test_funding_on_a_host_400_days_ahead_is_refused(right: SeededServer) -> None:
    """The command says why in one line and moves nothing; later movements are dated now."""
    before = balance_of_ada(right)
    fund = ["account", "fund", "@ada", "5", "--database", right.url]
    done = subprocess.run(
        [*ousel_on_skewed_host(LIBFAKETIME, DAYS_400), *fund],
        check=False,
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "ousel: The clock of this host is 34560"
    )  # and the rest of the seconds
    assert done.stderr.count("\n") == 1
    moved = call(right.server, right, "/transfers", {"to": "@ada", "amount": 1})
    assert balance_of_ada(right) == before + 1
    assert micros_from_timestamp(moved["created_at"], param="") <= system_clock()
    assert ousel("verify", database=right.url).exit_code == 0


def test_a_host_400_days_ahead_dates_nothing_in_the_future(right: SeededServer) -> None:
    """Its server is not ready, and still writes by the database's clock if somebody calls it."""
    before = system_clock()
    with SkewedServer(right.url, SHIFTED, DAYS_400) as server:
        moved = call(server, right, "/transfers", {"to": "@ada", "amount": 1})
        charge = call(server, right, "/charges", {"amount": 1})
    after = system_clock()

    for record in (moved, charge):
        assert before <= micros_from_timestamp(record["created_at"], param="") <= after
    assert ousel("verify", database=right.url).exit_code == 0


@pytest.mark.parametrize(("way", "seconds"), [(SHIFTED, -THREE_HOURS), (LIBFAKETIME, THREE_HOURS)])
def test_a_skewed_host_neither_says_nor_writes_that_a_fresh_charge_is_expired(
    right: SeededServer, way: str, seconds: int
) -> None:
    """Whether the host's clock is ahead or behind, both hosts see the charge as it is."""
    with SkewedServer(right.url, way, seconds) as skewed:
        charge = f"/charges/{call(right.server, right, '/charges', {'amount': 1})['id']}"

        assert call(skewed, right, charge)["status"] == "created"
        assert call(skewed, right, "/charges?limit=1")["data"][0]["status"] == "created"
        assert call(right.server, right, charge)["status"] == "created"
        assert call(skewed, right, f"{charge}/cancel", {})["status"] == "canceled"


def test_a_skewed_host_is_not_ready_and_says_by_how_much(right: SeededServer) -> None:
    """The probe fails with the reason, and the metric shows the difference."""
    with SkewedServer(right.url, SHIFTED, -THREE_HOURS) as server:
        probe = httpx2.get(f"{server.origin}/readyz", verify=False)
        metrics = httpx2.get(f"http://127.0.0.1:{server.admin_port}/metrics", verify=False).text

    assert (probe.status_code, probe.json()["code"]) == (503, "clock_skewed")
    assert " seconds behind that of the database" in probe.json()["detail"]
    [line] = [each for each in metrics.splitlines() if each.startswith("ousel_clock_skew_seconds")]
    assert float(line.split()[1]) == pytest.approx(-THREE_HOURS, abs=MEASURING_SECONDS_MAX)
