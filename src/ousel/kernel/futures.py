"""Futures that many callers wait for."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

# To answer two refused requests takes about a quarter of a millisecond. Another request needs
# several turns of the event loop, so it is delayed by one or two milliseconds.
FAILED_AT_ONCE: Final = 2


def fail_gradually(futures: Sequence[asyncio.Future[Any]], error: Exception) -> None:
    """Let the callers that wait for these futures fail, a few in each turn of the event loop.

    So other requests are answered in between, even if thousands of callers wait.
    """
    for future in futures[:FAILED_AT_ONCE]:
        if not future.done():
            future.set_exception(error)
    if remaining := futures[FAILED_AT_ONCE:]:
        asyncio.get_running_loop().call_soon(fail_gradually, remaining, error)
