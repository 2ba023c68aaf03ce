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


async def test_a_worker_that_no_longer_answers_is_hanging() -> None:
    """A worker is ready after its first heartbeat, and hangs after a long silence."""
    worker = Worker(serve)
    try:
        await until(lambda: _is_ready(worker))
        assert not worker.is_starting()
        assert not worker.is_hanging()
        psutil.Process(worker.process.pid).suspend()
        await asyncio.sleep(HEARTBEAT_SECONDS)
        worker.read_heartbeats(0.0)
        worker.read_heartbeats(SILENT_SECONDS_MAX + 1)
        assert worker.is_hanging()
    finally:
        worker.kill()

    assert not worker.process.is_alive()


async def test_a_worker_that_ended_is_neither_starting_nor_hanging() -> None:
    """Its end is seen as such, with its exit code, however long it has been silent."""
    worker = Worker(fail)
    worker.process.join()
    worker.read_heartbeats(SILENT_SECONDS_MAX + 1)

    assert not worker.is_starting()
    assert not worker.is_hanging()
    worker.kill()
    assert worker.process.exitcode == 3


def _is_ready(worker: Worker) -> bool:
    worker.read_heartbeats(0.0)
    return worker.is_ready
