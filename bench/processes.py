"""CPU time, memory and start time of servers; and the server of the reference application."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import psutil

from ousel.workload.processes import Server, free_port, ousel_server, run_server

_BIN: Final = Path(sys.executable).parent
_MEGABYTE: Final = 1_000_000

WATCH_SECONDS: Final = 0.1


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process and all its children, past and present, have used."""
    process = psutil.Process(pid)
    return sum(map(_cpu_seconds, [process, *process.children(recursive=True)]))


def _cpu_seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system + times.children_user + times.children_system


def measure_start(database_url: str, starts: int) -> tuple[float, float]:
    """Return the start time of `ousel serve` in seconds, and its idle memory in megabytes."""
    seconds: list[float] = []
    megabytes: list[float] = []
    for _ in range(starts):
        started = time.perf_counter()
        with ousel_server(database_url) as server:
            seconds.append(time.perf_counter() - started)
            megabytes.append(psutil.Process(server.pid).memory_info().rss / _MEGABYTE)
    return median(seconds), median(megabytes)


def peak_megabytes(word: str, until: Callable[[], bool]) -> float:
    """Watch the child processes with this word in their command; return their peak memory."""
    peak = 0
    while not until():
        children = psutil.Process().children(recursive=True)
        peak = max(peak, sum(_resident_bytes(each, word) for each in children))
        time.sleep(WATCH_SECONDS)
    return peak / _MEGABYTE


def _resident_bytes(process: psutil.Process, word: str) -> int:
    try:
        is_watched = any(word in argument for argument in process.cmdline())
        return process.memory_info().rss if is_watched else 0
    except psutil.Error:  # it has just ended
        return 0


def measure_commands(commands: Sequence[str], database_url: str, starts: int) -> dict[str, float]:
    """Return how many seconds each of these commands takes, the median of some runs."""
    return {
        command: median(_command_seconds(command, database_url) for _ in range(starts))
        for command in commands
    }


def _command_seconds(command: str, database_url: str) -> float:
    started = time.perf_counter()
    subprocess.run(  # noqa: S603 - our own commands
        [_BIN / "ousel", *command.split()[1:]],
        env=os.environ | {"OUSEL_DATABASE_URL": database_url},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - started


@contextlib.contextmanager
def reference_server(database_url: str) -> Iterator[Server]:
    """Run the reference application on uvicorn."""
    port = free_port()
    command = [str(_BIN / "uvicorn"), "bench.reference.application:application"]
    command += ["--port", str(port), "--loop", "uvloop", "--http", "httptools", "--no-access-log"]
    command += ["--log-level", "warning"]
    with run_server(command, port, "/healthz", {"REFERENCE_DATABASE_URL": database_url}) as server:
        yield server
