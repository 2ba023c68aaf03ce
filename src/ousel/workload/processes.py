"""The processes of a measurement: servers and load generators."""

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Final

import msgspec

from ousel.kernel.programs import program
from ousel.workload.load import LoadPlan, LoadResult

START_SECONDS_MAX: Final = 120.0
STOP_SECONDS_MAX: Final = 60.0
LOAD_SECONDS_SPARE: Final = 240.0


class MeasurementFailed(Exception):
    """A measurement failed; the message says why in one sentence."""


class Server(msgspec.Struct, frozen=True):
    """A server process and its port."""

    pid: int
    port: int


def run_load_process(plan: LoadPlan) -> LoadResult:
    """Run the load generator as a separate process, and return its result."""
    finished = subprocess.run(
        [sys.executable, "-m", "ousel.workload.load"],
        input=msgspec.json.encode(plan),
        capture_output=True,
        timeout=plan.warm_seconds + plan.seconds + LOAD_SECONDS_SPARE,
        check=False,
    )
    if finished.returncode != 0:
        raise MeasurementFailed(f"the load failed: {finished.stderr.decode()[-2000:]}")
    return msgspec.json.decode(finished.stdout, type=LoadResult)


def environment_without_settings() -> dict[str, str]:
    """Return the environment without Ousel's variables.

    They may be the settings of a real installation, whose keys and witnesses must not be used.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("OUSEL_")}


@contextlib.contextmanager
def ousel_server(database_url: str, workers: int = 1, **settings: str) -> Iterator[Server]:
    """Run `ousel serve` on this database, without a rate limit, until the block ends."""
    port = free_port()
    command = [sys.executable, "-m", "ousel", "serve", "--port", str(port)]
    environment = {
        "OUSEL_DATABASE_URL": database_url,
        "OUSEL_RATE_LIMIT": "off",
        "OUSEL_LOG_LEVEL": "warning",
    } | settings
    if workers > 1:
        command.append(f"--workers={workers}")
    with run_server(command, port, "/readyz", environment) as server:
        yield server


@contextlib.contextmanager
def run_server(
    command: list[str], port: int, probe: str, environment: dict[str, str]
) -> Iterator[Server]:
    """Run a server until the block ends; the block starts when the server answers its probe."""
    with program(command, environment_without_settings() | environment) as process:
        try:
            deadline = time.monotonic() + START_SECONDS_MAX
            while not _answers(f"http://127.0.0.1:{port}{probe}"):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise MeasurementFailed(f"{' '.join(command)} did not start")
                time.sleep(0.05)
            yield Server(process.pid, port)
        finally:
            process.terminate()
            process.wait(STOP_SECONDS_MAX)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:  # noqa: S310 - our own server
            return bool(answer.status == 200)  # noqa: PLR2004 - the status OK
    except (urllib.error.URLError, OSError):
        return False


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
