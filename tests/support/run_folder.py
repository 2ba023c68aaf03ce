"""The folder for all temporary files of one run of the tests.

When the run has ended, even if it was killed, a guard process stops the processes that the run has
left behind and removes the folder.
"""

import atexit
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support import run_guard

END_SECONDS_MAX = 30.0
MEMORY = "/dev/shm"
MEMORY_FREE_MIN = 8 << 30
ENDS_WITH_PYTEST = "multiprocessing.resource_tracker"
LENGTH_MAX = 40  # the address of a Unix socket in this folder must not exceed 107 bytes


class RunFolder:
    """A new temporary folder, which every process that is started later uses."""

    def __init__(self) -> None:
        self._path = Path(tempfile.mkdtemp(prefix="ousel-tests-", dir=_parent()))
        self._path.chmod(0o755)  # if root runs the tests, PostgreSQL runs as another user
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", run_guard.__file__, str(self._path)],
            stdin=subprocess.PIPE,
            start_new_session=True,  # so that Ctrl-C does not stop it
        )
        os.environ["TMPDIR"] = tempfile.tempdir = str(self._path)
        os.environ["NODE_COMPILE_CACHE"] = str(self._path / "node")  # for all starts of Node.js
        atexit.register(self._guard.communicate)

    def processes_left(self) -> list[str]:
        """Return the command lines of the processes of this run that do not end by themselves."""
        deadline = time.monotonic() + END_SECONDS_MAX
        while (left := self._processes()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left

    def _processes(self) -> list[str]:
        commands = map(run_guard.command, run_guard.processes(self._path))
        return [command for command in commands if command and ENDS_WITH_PYTEST not in command]


def _parent() -> str:
    """Return a folder in memory, TMPDIR, or /tmp if PostgreSQL cannot create its socket there."""
    if "TMPDIR" not in os.environ and _has_room_for_programs(MEMORY):
        return MEMORY  # what never reaches a disk is written and removed at once
    usual = tempfile.gettempdir()
    return "/tmp" if len(usual) > LENGTH_MAX or " " in usual else usual


def _has_room_for_programs(folder: str) -> bool:
    """Return whether this folder has much room, and programs in it may be run."""
    if not os.access(folder, os.W_OK):
        return False
    system = os.statvfs(folder)
    has_room = system.f_bavail * system.f_frsize >= MEMORY_FREE_MIN
    return has_room and not system.f_flag & os.ST_NOEXEC
