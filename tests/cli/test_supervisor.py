"""A worker process, as the supervisor sees it."""

import asyncio
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from ousel.cli.supervisor import (
    HEARTBEAT_SECONDS,
    SILENT_SECONDS_MAX,
    Heartbeat,
    Supervisor,
    Worker,
)
from ousel.observation.logs import log_to_standard_error
from tests.support.waiting import until, wait_until

pytestmark = pytest.mark.slow


def serve(heartbeat: Heartbeat) -> None:
    """Start at once, and go on until a signal ends the process."""

    async def run() -> None:
        await start_server(heartbeat)
        await asyncio.sleep(60)

    asyncio.run(run())


def get_stuck(heartbeat: Heartbeat) -> None:
    """Start at once, and then block the event loop."""

    async def run() -> None:
        await start_server(heartbeat)
        time.sleep(60)  # noqa: ASYNC251 - the test wants it to block

    asyncio.run(run())


def start_slowly(heartbeat: Heartbeat) -> None:
    """Take long before requests are accepted."""
    heartbeat.start(SimpleNamespace(started=False, servers=[]))
    time.sleep(60)


async def start_server(heartbeat: Heartbeat) -> None:
    """Start a server on the running event loop, and send its heartbeats."""
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    heartbeat.start(SimpleNamespace(started=True, servers=[server]))


def fail(_: Heartbeat) -> None:
    """End before anything is served."""
    raise SystemExit(3)


def serve_unless_broken(folder: Path, heartbeat: Heartbeat) -> None:
    """Serve, and leave a file that says so, unless the new program is broken."""
    if (folder / "broken").exists():
        raise SystemExit(3)
    (folder / f"{os.getpid()}.served").touch()
    serve(heartbeat)


def supervise_two(folder: Path) -> None:
    """Supervise two workers, and log to a file."""
    with (folder / "log").open("w") as log, socket.socket() as unused:
        os.dup2(log.fileno(), 2)
        log_to_standard_error("info")
        Supervisor(partial(serve_unless_broken, folder), unused, 2, stop_seconds_max=60).run()


def test_a_replacement_that_stops_halfway_is_logged(tmp_path: Path) -> None:
    """If the first successor does not start, the other worker stays, and the log says so."""
    process = multiprocessing.get_context("spawn").Process(target=supervise_two, args=(tmp_path,))
    process.start()
    supervisor = psutil.Process(process.pid)
    try:
        wait_until(lambda: len(list(tmp_path.glob("*.served"))) == 2)
        (tmp_path / "broken").touch()
        supervisor.send_signal(signal.SIGHUP)
        wait_until(lambda: "not all worker processes were replaced" in logged(tmp_path))
    finally:
        supervisor.terminate()
        process.join()

    assert '"remaining": 1' in logged(tmp_path)


def logged(folder: Path) -> str:
    """Return what the supervisor has logged."""
    return (folder / "log").read_text()


async def test_a_worker_that_falls_silent_has_failed() -> None:
    """A worker is ready after its first heartbeat, and has failed after a long silence."""
    worker = Worker(serve)
    try:
        await until(lambda: _is_ready(worker))
        assert not worker.is_starting()
        assert not worker.has_failed()
        psutil.Process(worker.process.pid).suspend()
        await asyncio.sleep(HEARTBEAT_SECONDS)
        worker.read_heartbeats(0.0)
        worker.read_heartbeats(SILENT_SECONDS_MAX + 1)
        assert worker.process.is_alive()
        assert worker.has_failed()
    finally:
        worker.kill()

    assert not worker.process.is_alive()


async def test_a_worker_whose_event_loop_is_stuck_has_failed() -> None:
    """It accepts requests but answers none, so its silence counts, although the process lives."""
    worker = Worker(get_stuck)
    try:
        await until(lambda: _is_ready(worker))
        await asyncio.sleep(4 * HEARTBEAT_SECONDS)
        worker.read_heartbeats(SILENT_SECONDS_MAX + 1)
        assert worker.process.is_alive()
        assert worker.has_failed()
    finally:
        worker.kill()


@pytest.mark.parametrize("work", [serve, start_slowly])
async def test_a_worker_that_serves_or_starts_has_not_failed(
    work: Callable[[Heartbeat], None],
) -> None:
    """Its heartbeats go on, and each ends a silence, however long that was."""
    worker = Worker(work)
    try:
        for _ in range(3):
            worker.silent_seconds = SILENT_SECONDS_MAX + 1
            await until(lambda: not _has_failed(worker))
            assert worker.is_ready == (work is serve)
    finally:
        worker.kill()


async def test_a_worker_that_ended_has_failed() -> None:
    """Its end is seen at once, with its exit code."""
    worker = Worker(fail)
    worker.process.join()
    worker.read_heartbeats(0.0)

    assert not worker.is_starting()
    assert worker.has_failed()
    worker.kill()
    assert worker.process.exitcode == 3


def _has_failed(worker: Worker) -> bool:
    worker.read_heartbeats(0.0)
    return worker.has_failed()


def _is_ready(worker: Worker) -> bool:
    worker.read_heartbeats(0.0)
    return worker.is_ready
