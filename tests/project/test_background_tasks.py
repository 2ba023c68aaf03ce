"""Background tasks: after a failure, the next run tries again."""

import asyncio
from contextlib import suppress

import pytest

from ousel.app.background_tasks import run_repeatedly
from ousel.app.ousel import Ousel
from ousel.kernel.errors import DatabaseUnavailable
from ousel.kernel.settings import Settings
from tests.support.logs import captured_logs

TASK_SECONDS_MAX = 60


async def test_a_background_task_runs_again_after_any_failure() -> None:
    """A refusal is logged as a warning, anything else as an error with its traceback.

    The warning says why, and what the first cause was.
    """
    away = DatabaseUnavailable("away")
    away.__cause__ = ConnectionRefusedError("Connect call failed")
    failures = [away, KeyError("a defect"), TimeoutError()]
    done = asyncio.Event()

    async def task() -> None:
        if failures:
            raise failures.pop(0)
        done.set()

    with captured_logs() as written:
        again = asyncio.create_task(run_repeatedly(0.001, task))
        await asyncio.wait_for(done.wait(), timeout=TASK_SECONDS_MAX)
        again.cancel()

    assert [line["level"] for line in written] == ["warning", "error", "error"]
    assert (written[0]["code"], written[0]["reason"]) == ("database_unavailable", "away")
    assert written[0]["cause"] == "ConnectionRefusedError('Connect call failed')"
    assert "KeyError: 'a defect'" in written[1]["exception"]


async def test_a_service_closes_its_database_whatever_happens(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A last task that fails stops neither the other tasks nor the closing of the database."""
    ousel = Ousel(Settings(database_url=database_url))
    tried = []

    async def fail() -> None:
        tried.append("failed")
        raise KeyError("a defect")

    async def succeed() -> None:
        tried.append("succeeded")

    async def close() -> None:
        tried.append("closed")
        await closing()

    closing = ousel.database.close
    monkeypatch.setattr(ousel.database, "close", close)
    monkeypatch.setattr(ousel.services.key_lookup, "record_uses", fail)
    monkeypatch.setattr(ousel.services.token_lookup, "record_uses", succeed)
    async with ousel.running():
        pass

    assert tried == ["failed", "succeeded", "closed"]


async def test_a_task_that_fails_when_it_is_canceled_is_not_run_again() -> None:
    """A write that was begun fails with its own error, but the service must be able to end."""
    runs = []
    begun = asyncio.Event()

    async def write() -> None:
        runs.append(1)
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        raise DatabaseUnavailable("The connection was lost.")

    again = asyncio.create_task(run_repeatedly(0, write))
    await begun.wait()
    again.cancel()
    await asyncio.wait([again], timeout=TASK_SECONDS_MAX)

    assert again.done()
    assert runs == [1]
