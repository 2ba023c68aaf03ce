"""Waits for a condition, as long as it takes and no longer."""

import asyncio
import time
from collections.abc import Callable

WAIT_SECONDS_MAX = 60.0
CHECK_SECONDS = 0.005


async def until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds; fail after a minute."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, f"waited {WAIT_SECONDS_MAX} s in vain"
        await asyncio.sleep(CHECK_SECONDS)


def wait_until(condition: Callable[[], object], seconds_max: float = WAIT_SECONDS_MAX) -> None:
    """Block this thread until the condition holds; fail after so many seconds."""
    deadline = time.monotonic() + seconds_max
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds_max} s in vain"
        time.sleep(CHECK_SECONDS)
