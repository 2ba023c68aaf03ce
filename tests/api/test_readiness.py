"""GET /readyz: whether the clock of the host agrees with that of the database."""

import time

import httpx2
import pytest

from ousel.app.ousel import Ousel
from ousel.kernel.settings import Settings
from tests.support.in_process import InProcessTransport

HOUR_NANOS = 3600 * 1_000_000_000


async def test_a_host_is_ready_as_long_as_its_clock_is_right(
    database_url: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each measurement decides anew; on SQLite the host's clock is always right."""
    ousel = Ousel(Settings(database_url=database_url))
    right = time.time_ns
    statuses: list[int] = []
    async with (
        ousel.running(),
        httpx2.AsyncClient(transport=InProcessTransport(ousel), base_url="http://test") as client,
    ):
        for skew_nanos in (0, HOUR_NANOS, -HOUR_NANOS, 0):
            monkeypatch.setattr(time, "time_ns", lambda skew=skew_nanos: right() + skew)
            await ousel.database_clock.measure()
            statuses.append((await client.get("/readyz")).status_code)

    assert statuses == ([200, 503, 503, 200] if engine != "sqlite" else [200] * 4)
