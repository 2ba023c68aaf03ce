"""The processes that are measured: started, asked for their CPU time, stopped."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import psutil

from bench.load import Plan, Tally

START_SECONDS_MAX: Final = 20.0
STOP_SECONDS_MAX: Final = 60.0
LOAD_SECONDS_SPARE: Final = 40.0

_BIN: Final = Path(sys.executable).parent


class Failure(Exception):
    """A measurement that did not come about, in one sentence."""


class Server(msgspec.Struct, frozen=True):
    """A server process and the port that it listens on."""

    pid: int
    port: int


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


def load(plan: Plan) -> Tally:
    """Put a load on from a process of its own."""
    finished = subprocess.run(
        [sys.executable, "-m", "bench.load"],
        input=msgspec.json.encode(plan),
        capture_output=True,
        timeout=plan.warm_seconds + plan.seconds + LOAD_SECONDS_SPARE,
        check=False,
    )
    if finished.returncode != 0:
        raise Failure(f"the load failed: {finished.stderr.decode()[-2000:]}")
    return msgspec.json.decode(finished.stdout, type=Tally)


@contextlib.contextmanager
def ousel_server(database_url: str) -> Iterator[Server]:
    """Run `ousel serve` on this database, as an operator does, but without a rate limit."""
    port = _free_port()
    command = [str(_BIN / "ousel"), "serve", "--database", database_url, "--port", str(port)]
    environment = {"OUSEL_RATE_LIMIT": "off", "OUSEL_LOG_LEVEL": "warning"}
    with _running(command, port, "/readyz", environment) as server:
        yield server


@contextlib.contextmanager
def reference_server(database_url: str) -> Iterator[Server]:
    """Run the reference application on the same server software."""
    port = _free_port()
    command = [str(_BIN / "uvicorn"), "bench.reference.application:application"]
    command += ["--port", str(port), "--loop", "uvloop", "--http", "httptools", "--no-access-log"]
    command += ["--log-level", "warning"]
    with _running(command, port, "/healthz", {"REFERENCE_DATABASE_URL": database_url}) as server:
        yield server


@contextlib.contextmanager
def _running(
    command: list[str], port: int, probe: str, environment: dict[str, str]
) -> Iterator[Server]:
    process = subprocess.Popen(command, env=os.environ | environment)  # noqa: S603 - our own
    try:
        deadline = time.monotonic() + START_SECONDS_MAX
        while not _answers(f"http://127.0.0.1:{port}{probe}"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"{command[0]} did not start")
            time.sleep(0.05)
        yield Server(process.pid, port)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_SECONDS_MAX)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:  # noqa: S310 - our own server
            return bool(answer.status == 200)  # noqa: PLR2004 - OK
    except (urllib.error.URLError, OSError):
        return False


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
