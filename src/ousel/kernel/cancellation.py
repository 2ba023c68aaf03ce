"""Cancellation: a request ends when its client hangs up, but not while it commits."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import TypeVar

Result = TypeVar("Result")


async def run_to_end(work: Awaitable[Result]) -> Result:
    """Return the result of the work; a canceled caller still waits until the work has ended.

    If the work then fails, the caller gets its error instead of the cancellation.
    """
    running = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        running.result()
        raise
