"""A worker process, as the supervisor sees it."""

import asyncio
import time
from types import SimpleNamespace

import psutil
import pytest

from ousel.cli.supervisor import HEARTBEAT_SECONDS, SILENT_SECONDS_MAX, Heartbeat, Worker
from tests.support.waiting import until

pytestmark = pytest.mark.slow


def serve(heartbeat: Heartbeat) -> None:
    """Start at once, and go on until a signal ends the process."""
    heartbeat.start(SimpleNamespace(started=True))
    time.sleep(60)


def fail(_: Heartbeat) -> None:
    """End before anything is served."""
    raise SystemExit(3)


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


async def test_a_worker_that_ended_has_failed() -> None:
    """Its end is seen at once, with its exit code."""
    worker = Worker(fail)
    worker.process.join()
    worker.read_heartbeats(0.0)

    assert not worker.is_starting()
    assert worker.has_failed()
    worker.kill()
    assert worker.process.exitcode == 3


def _is_ready(worker: Worker) -> bool:
    worker.read_heartbeats(0.0)
    return worker.is_ready
