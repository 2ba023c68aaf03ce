"""Cleans up after a run of the tests: processes, mounts and the run's folder.

The guard starts with the run and waits until its standard input is closed. The system closes this
input as soon as pytest has ended, even if pytest was killed. The guard finds the processes of the
run by the run's folder, which is TMPDIR in their environment.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ATTEMPTS_MAX = 100


def main(folder: Path) -> None:
    """Wait until the run has ended, then clean up."""
    sys.stdin.read()
    for attempt in range(ATTEMPTS_MAX):
        left = list(processes(folder))
        if not left:
            break
        # PostgreSQL frees its shared memory when asked to stop, but not when killed.
        servers = set(_postgres_servers(folder)) if attempt < ATTEMPTS_MAX / 2 else set()
        for pid in left:
            _send(pid, signal.SIGQUIT if pid in servers else signal.SIGKILL)
            _send(pid, signal.SIGCONT)
        time.sleep(0.1)
    for mount in _mounts(folder):
        subprocess.run(["umount", "--lazy", mount], check=False)
    shutil.rmtree(folder, ignore_errors=True)


def processes(folder: Path) -> Iterator[int]:
    """Yield the ids of the processes that belong to this run and are alive."""
    mark = f"\0TMPDIR={folder}".encode()
    servers = set(_postgres_servers(folder))
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # In some containers, root cannot read the environment of a PostgreSQL server.
            if int(entry.name) in servers or mark in b"\0" + (entry / "environ").read_bytes():
                yield int(entry.name)


def _postgres_servers(folder: Path) -> Iterator[int]:
    for parent, _, files in os.walk(folder):  # unlike rglob, it ignores folders that vanish
        if "postmaster.pid" not in files:
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int(Path(parent, "postmaster.pid").read_text().split()[0])
            if "postgres" in command(pid):
                yield pid


def command(pid: int) -> str:
    """Return the command line of a process, or "" if it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    return ""


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _mounts(folder: Path) -> list[str]:
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [mount for mount in mounts if mount.startswith(f"{folder}/")]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
