"""Servers and commands on a host whose clock is wrong, beside a host whose clock is right."""

import asyncio
import subprocess
import sys
from http.client import HTTPConnection
from typing import Any

import httpx2
import pytest

from ousel.kernel.clock import micros_from_timestamp, system_clock
from tests.cli.commands import OUSEL, ousel
from tests.support import skewed_host
from tests.support.programs import program
from tests.support.seeded import SeededDatabase, run_verify, seed_database
from tests.support.server import Server, free_port

pytestmark = pytest.mark.slow

SHIFTED, LIBFAKETIME = "shifted", "libfaketime"  # for Python alone, or for the whole process
THREE_HOURS = 3 * 3600
DAYS_400 = 400 * 24 * 3600
MEASURING_SECONDS_MAX = 60  # how long a busy machine may take to measure the clock


@pytest.fixture
def seeded(postgres_url: str) -> SeededDatabase:
    """A fresh PostgreSQL database with a partner and people."""
    return asyncio.run(seed_database(postgres_url))


class SkewedServer(Server):
    """A server on a host whose clock is wrong, which keeps it from being ready."""

    ready_path = "/healthz"

    def __init__(self, database_url: str, way: str, seconds: int) -> None:
        self.admin_port = free_port()
        super().__init__(database_url, "--admin-port", str(self.admin_port))
        self._command[:1] = ousel_on_skewed_host(way, seconds)

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
        # `faketime` itself passes no signals on to the program that it runs, but `env` becomes it.
        faked = [program("faketime"), "-f", f"{seconds:+d}"]
        library = subprocess.check_output([*faked, "printenv", "LD_PRELOAD"], text=True).strip()
        return ["env", f"LD_PRELOAD={library}", f"FAKETIME={seconds:+d}", str(OUSEL)]
    return [sys.executable, "-m", skewed_host.__name__, str(seconds)]


def call(server: Server, seeded: SeededDatabase, path: str, body: Any = None) -> Any:
    """Return the JSON that the server answers to the partner."""
    answer = httpx2.request(
        "GET" if body is None else "POST",
        f"{server.base_url}{path}",
        headers={"Authorization": f"Bearer {seeded.key}"},
        json=body,
        verify=False,
    )
    assert answer.is_success, answer.text
    return answer.json()


@pytest.mark.parametrize("way", [SHIFTED, LIBFAKETIME])
def test_funding_on_a_host_400_days_ahead_is_refused(seeded: SeededDatabase, way: str) -> None:
    """The command says why in one line and moves nothing; later movements are dated now."""
    fund = ["account", "fund", "@ada", "5", "--database", seeded.url]
    done = subprocess.run(
        [*ousel_on_skewed_host(way, DAYS_400), *fund], check=False, capture_output=True, text=True
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "ousel: The clock of this host is 34560"
    )  # and the rest of the seconds
    assert done.stderr.count("\n") == 1
    with Server(seeded.url) as server:
        moved = call(server, seeded, "/transfers", {"to": "@ada", "amount": 1})
    shown = ousel("account", "show", "@ada", "--json", database=seeded.url)
    assert shown.json["balance"] == 1
    assert micros_from_timestamp(moved["created_at"], param="") <= system_clock()
    run_verify(seeded.url)


def test_a_host_400_days_ahead_dates_nothing_in_the_future(seeded: SeededDatabase) -> None:
    """Its server is not ready, and still writes by the database's clock if somebody calls it."""
    before = system_clock()
    with SkewedServer(seeded.url, SHIFTED, DAYS_400) as server:
        moved = call(server, seeded, "/transfers", {"to": "@ada", "amount": 1})
        charge = call(server, seeded, "/charges", {"amount": 1})
    after = system_clock()

    for record in (moved, charge):
        assert before <= micros_from_timestamp(record["created_at"], param="") <= after
    run_verify(seeded.url)


@pytest.mark.parametrize(
    ("way", "seconds"),
    [(SHIFTED, THREE_HOURS), (SHIFTED, -THREE_HOURS), (LIBFAKETIME, THREE_HOURS)],
)
def test_a_skewed_host_neither_says_nor_writes_that_a_fresh_charge_is_expired(
    seeded: SeededDatabase, way: str, seconds: int
) -> None:
    """Whether the host's clock is ahead or behind, both hosts see the charge as it is."""
    with Server(seeded.url) as right, SkewedServer(seeded.url, way, seconds) as skewed:
        charge = f"/charges/{call(right, seeded, '/charges', {'amount': 1})['id']}"

        assert call(skewed, seeded, charge)["status"] == "created"
        assert [each["status"] for each in call(skewed, seeded, "/charges")["data"]] == ["created"]
        assert call(right, seeded, charge)["status"] == "created"
        assert call(skewed, seeded, f"{charge}/cancel", {})["status"] == "canceled"


def test_a_skewed_host_is_not_ready_and_says_by_how_much(seeded: SeededDatabase) -> None:
    """The probe fails with the reason, and the metric shows the difference."""
    with SkewedServer(seeded.url, SHIFTED, -THREE_HOURS) as server:
        probe = httpx2.get(f"{server.origin}/readyz", verify=False)
        metrics = httpx2.get(f"http://127.0.0.1:{server.admin_port}/metrics", verify=False).text

    assert (probe.status_code, probe.json()["code"]) == (503, "clock_skewed")
    assert " seconds behind that of the database" in probe.json()["detail"]
    [line] = [each for each in metrics.splitlines() if each.startswith("ousel_clock_skew_seconds")]
    assert float(line.split()[1]) == pytest.approx(-THREE_HOURS, abs=MEASURING_SECONDS_MAX)
