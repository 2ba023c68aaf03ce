"""A run of the tests leaves nothing behind, however it ends."""

import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support import run_guard
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

# What tests start: a PostgreSQL server, a server, and a program in a session of its own.
RUN = """
import subprocess, sys, tempfile
from pathlib import Path
from tests.support.run_folder import RunFolder

RunFolder()
from tests.support.engines import Engines
from tests.support.server import Server

folder = Path(tempfile.mkdtemp())
subprocess.Popen(["sleep", "600"], start_new_session=True)
Engines().empty_url("postgresql", folder)
with Server(str(folder / "ousel.db")):
    print(tempfile.gettempdir(), flush=True)
    sys.stdin.read()
"""


@pytest.mark.usefixtures("usual_signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_killed_run_leaves_nothing_behind(number: signal.Signals) -> None:
    """Its processes end, and its folder is removed."""
    run = subprocess.Popen(
        [sys.executable, "-c", RUN],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with run:
        assert run.stdout is not None
        folder = Path(run.stdout.readline().strip())
        started = {pid: run_guard.command(pid) for pid in run_guard.processes(folder)}
        shared_memory = {path for pid in started for path in _shared_memory(pid)}
        run.send_signal(number)

    wait_until(lambda: not folder.exists())
    assert folder.parent == Path(tempfile.gettempdir())
    for program in ("sleep 600", "ousel serve", "postgres -D"):
        assert any(program in command for command in started.values())
    assert list(run_guard.processes(folder)) == []
    assert shared_memory
    assert not any(path.exists() for path in shared_memory)


def _shared_memory(pid: int) -> set[Path]:
    """Return the files of shared memory that a process uses."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    return {Path(path) for path in re.findall(r"/dev/shm/\S+", maps)}
