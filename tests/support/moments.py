"""Waiting for what comes about by itself, for as long as it takes and no longer."""

import asyncio
from collections.abc import Callable

WAIT_SECONDS_MAX = 60.0
LOOK_SECONDS = 0.005


async def until(holds: Callable[[], object]) -> None:
    """Wait until this holds."""
    for _ in range(int(WAIT_SECONDS_MAX / LOOK_SECONDS)):
        if holds():
            return
        await asyncio.sleep(LOOK_SECONDS)
    raise AssertionError(f"waited {WAIT_SECONDS_MAX} s in vain")
