"""Waits until a condition holds, up to a maximum time."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import psutil

from tests.support.raw_sql import RawSql

WAIT_SECONDS_MAX = 240.0  # a busy machine is not a defect
PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.005, 0.1  # between two checks
BLOCKED = (
    "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


async def until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds; fail after four minutes."""

    async def check() -> object:
        return condition()

    await until_async(check)


async def until_next_iteration(condition: Callable[[], object]) -> None:
    """Wait until the condition holds, which is looked at in every iteration of the event loop."""
    ends_at = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        assert time.monotonic() < ends_at, f"it did not hold within {WAIT_SECONDS_MAX} s"
        await asyncio.sleep(0)
    await asyncio.sleep(0)


async def until_async(condition: Callable[[], Awaitable[object]]) -> None:
    """Wait until the awaited condition holds; fail after four minutes."""
    for pause_seconds in _pauses(WAIT_SECONDS_MAX):
        if await condition():
            return
        await asyncio.sleep(pause_seconds)
    raise AssertionError(f"the condition did not hold within {WAIT_SECONDS_MAX} s")


async def assert_none_ends(*tasks: asyncio.Task[Any], seconds: float) -> None:
    """Check that none of these tasks ends within this time."""
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    assert not done, done


async def least_cpu_share(
    process: psutil.Process, tasks: Sequence[asyncio.Task[Any]], seconds: float
) -> float:
    """Return the least share of a core that a process needs in three periods while tasks wait.

    In the first period, the process may still be busy with what was before.
    """
    shares: list[float] = []
    for _ in range(3):
        before = sum(process.cpu_times()[:2])
        await assert_none_ends(*tasks, seconds=seconds)
        shares.append((sum(process.cpu_times()[:2]) - before) / seconds)
    return min(shares)


def wait_until(condition: Callable[[], object], seconds_max: float = WAIT_SECONDS_MAX) -> None:
    """Block this thread until the condition holds; fail after this many seconds."""
    for pause_seconds in _pauses(seconds_max):
        if condition():
            return
        time.sleep(pause_seconds)
    raise AssertionError(f"the condition did not hold within {seconds_max} s")


def _pauses(seconds_max: float) -> Iterator[float]:
    """Yield the pause after each check, until this time is over.

    Checks cost CPU time that others need, so the pauses grow: each is a tenth of the time waited.
    """
    begun = time.monotonic()
    while (waited_seconds := time.monotonic() - begun) < seconds_max:
        yield min(max(waited_seconds / 10, PAUSE_SECONDS_MIN), PAUSE_SECONDS_MAX)


async def until_blocked(postgres_url: str, times: int = 1) -> None:
    """Wait until this many statements on this PostgreSQL database wait for a lock."""
    async with RawSql(postgres_url) as raw_sql:
        await until_async(lambda: raw_sql.run(f"{BLOCKED} OFFSET {times - 1}"))


async def until_done_or_blocked(task: "asyncio.Task[Any]", postgres_url: str) -> None:
    """Wait until the task has ended, or a statement on this PostgreSQL database is blocked."""
    async with RawSql(postgres_url) as raw_sql:

        async def is_done_or_blocked() -> bool:
            return task.done() or bool(await raw_sql.run(BLOCKED))

        await until_async(is_done_or_blocked)


async def until_unblocked(postgres_url: str) -> None:
    """Wait until no statement on this PostgreSQL database waits for a lock."""

    async with RawSql(postgres_url) as raw_sql:

        async def is_unblocked() -> bool:
            return not await raw_sql.run(BLOCKED)

        await until_async(is_unblocked)
