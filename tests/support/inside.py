"""The whole service inside the test's own process, with a clock and settings of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from ousel.app import Ousel
from ousel.kernel.clock import Clock, system_clock
from ousel.kernel.settings import Settings
from tests.support.transports import InsideTransport


@asynccontextmanager
async def inside(
    database_url: str, clock: Clock = system_clock, **settings: Any
) -> AsyncIterator[httpx2.AsyncClient]:
    """Return a client of a service on this database; afterwards the service has closed."""
    wanted = Settings(**{"database_url": database_url, "rate_limit": None, **settings})
    ousel = Ousel(wanted, clock)
    async with (
        ousel.running(),
        httpx2.AsyncClient(transport=InsideTransport(ousel), base_url=wanted.base_url) as client,
    ):
        yield client
