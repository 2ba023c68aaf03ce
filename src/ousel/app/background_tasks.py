"""The background tasks of a process: what it does repeatedly, and how often."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from ousel.app.services import Services
from ousel.database.clock import MEASURE_SECONDS, DatabaseClock
from ousel.kernel.errors import Refusal, first_cause, release_frames
from ousel.kernel.logs import EventLogger
from ousel.mail.sender import SEND_SECONDS
from ousel.sandbox.clock import REFRESH_SECONDS
from ousel.sealed_log.backfill import SEARCH_TICK_SECONDS
from ousel.sealed_log.cosigning import OFFER_SECONDS
from ousel.sealed_log.published import RECORD_SECONDS
from ousel.sealed_log.sealer import TICK_SECONDS

WRITE_BEHIND_SECONDS: Final = 5.0
SWEEP_SECONDS: Final = 60.0

BackgroundTask = Callable[[], Awaitable[Any]]

_log = EventLogger()


class BackgroundTasks:
    """What a process does repeatedly, apart from answering requests."""

    def __init__(self, services: Services, database_clock: DatabaseClock) -> None:
        """Run the tasks of these services, and measure this clock."""
        self._services = services
        self._database_clock = database_clock
        self._running: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Read the clocks, which requests need at once, and start all tasks."""
        await self._database_clock.measure()
        if self._services.sandbox_clock is not None:
            await self._services.sandbox_clock.refresh()
        self._running = [
            asyncio.create_task(run_repeatedly(seconds, task)) for seconds, task in self._schedule()
        ]

    async def stop(self) -> None:
        """Stop all tasks; then write what was still only collected in memory."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await asyncio.gather(*map(_run_once, self._write_behind_tasks()))

    def _schedule(self) -> list[tuple[float, BackgroundTask]]:
        """Return each task with the seconds between its runs."""
        services = self._services
        schedule: list[tuple[float, BackgroundTask]] = [
            *((WRITE_BEHIND_SECONDS, task) for task in self._write_behind_tasks()),
            (SWEEP_SECONDS, services.token_lookup.sweep),
            (SWEEP_SECONDS, services.attempts.sweep),
            (MEASURE_SECONDS, self._database_clock.measure),
            (SWEEP_SECONDS, services.retention.sweep),
            (SWEEP_SECONDS, services.outbox.sweep),
            (TICK_SECONDS, services.log.sealer.seal_due),
            (SEARCH_TICK_SECONDS, services.log.backfill_search.search_due),
            (RECORD_SECONDS, services.log.checkpoint_recorder.record),
            *((OFFER_SECONDS, each.offer_due) for each in services.log.cosignings),
        ]
        if services.mail_sender is not None:
            schedule.append((SEND_SECONDS, services.mail_sender.send_due))
        if services.sandbox_clock is not None:
            schedule.append((REFRESH_SECONDS, services.sandbox_clock.refresh))
        return schedule

    def _write_behind_tasks(self) -> tuple[BackgroundTask, ...]:
        """Return the tasks that write to the database what was collected in memory."""
        services = self._services
        return (
            services.key_lookup.record_uses,
            services.api_errors.write,
            services.token_lookup.record_uses,
            services.session_lookup.record_uses,
        )


async def run_repeatedly(seconds: float, task: BackgroundTask) -> None:
    """Run the task again and again, with this pause before each run, until this is canceled.

    A driver may turn the cancellation into another error, so this function also asks whether it is
    being canceled.
    """
    running = asyncio.current_task()
    assert running is not None
    while not running.cancelling():
        await asyncio.sleep(seconds)
        await _run_once(task)


async def _run_once(task: BackgroundTask) -> None:
    """Run the task; log a failure instead of raising it."""
    try:
        await task()
    except Refusal as refusal:
        _log.warning(
            "background task failed",
            code=refusal.code,
            reason=refusal.detail,
            cause=repr(first_cause(refusal)),
        )
        release_frames(refusal)
    except Exception:  # noqa: BLE001 - it is logged, and the other tasks continue
        _log.exception("background task failed")
