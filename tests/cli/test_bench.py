"""`ousel bench`: measures on a database of its own, and touches no other."""

import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.cli.commands import OUSEL, PROCESS_SECONDS_MAX, assert_fails, ousel
from tests.support.engines import Engines
from tests.support.waiting import wait_until


@pytest.mark.slow
def test_it_measures_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Flushes, empty answers and transfers, one by one and many at once; then the file is gone.

    The settings of a real installation, such as the key of its log, are not used. The server that
    is measured warns of none that it lacks.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUSEL_LOG_KEY_FILE", "/dev/null/log-key")

    lines = ousel("bench", "--seconds=0.1", "--json", database="untouched.db").json

    assert [line["what"] for line in lines if line["what"].startswith("a transfer")] == [
        f"a transfer, {connections} at once" for connections in (1, 16, 64, 256)
    ]
    assert all(line["p50_ms"] > 0 for line in lines)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ""


def test_a_database_that_is_in_use_is_left_alone(engines: Engines, tmp_path: Path) -> None:
    """Money that is only measured must not mix with what is real."""
    url = engines.fresh_url("sqlite", tmp_path)

    outcome = ousel("bench", "--database", url, database=url)

    assert_fails(outcome, "a measurement needs an empty one")


@pytest.mark.slow
@pytest.mark.usefixtures("usual_signals")
def test_a_measurement_that_is_stopped_leaves_nothing_behind(tmp_path: Path) -> None:
    """Neither the file nor the server outlives it if its terminal is closed."""
    process = subprocess.Popen([str(OUSEL), "bench", "--seconds=60"], cwd=tmp_path)
    wait_until(psutil.Process(process.pid).children, PROCESS_SECONDS_MAX)
    servers = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGHUP)

    assert process.wait(PROCESS_SECONDS_MAX) == 128 + signal.SIGHUP
    assert not any(server.is_running() for server in servers)
    assert list(tmp_path.iterdir()) == []
