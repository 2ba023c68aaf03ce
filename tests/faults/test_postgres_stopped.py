"""PostgreSQL is killed and comes back; the server recovers by itself."""

import asyncio
import random
import time

import pytest

from tests.faults.load import Load, assert_settled_exactly_once
from tests.faults.sizes import STOPS
from tests.support.figures import Figure
from tests.support.postgres_server import PostgresServer
from tests.support.seeded import SeededDatabase
from tests.support.server import Server
from tests.support.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture
def database_url(postgres: PostgresServer) -> str:
    """A fresh database on it."""
    return postgres.fresh_url()


async def health(server: Server) -> tuple[int, int]:
    """Return the statuses of the readiness and the liveness probe."""
    async with server.client() as client:
        ready = await client.get(f"{server.origin}/readyz")
        alive = await client.get(f"{server.origin}/healthz")
    return ready.status_code, alive.status_code


async def test_postgres_stops_immediately_and_comes_back(
    postgres: PostgresServer, seeded: SeededDatabase, chance: random.Random, figure: Figure
) -> None:
    """No acknowledged transfer is lost, retries succeed, and nobody restarts the server."""
    recoveries: list[float] = []
    with Server(seeded.url, OUSEL_LOG_LEVEL="error") as server:
        load = Load(seeded, server.port, between_seconds=0)
        async with load.running():
            for _ in range(STOPS):
                await load.progress()
                await asyncio.sleep(chance.uniform(0, 0.3))  # it stops at a random moment
                await asyncio.to_thread(postgres.stop_immediately)
                assert await health(server) == (503, 200)
                await asyncio.sleep(chance.uniform(0, 0.5))  # and is away for a random time
                await until(lambda: load.refused["database_unavailable"])
                await asyncio.to_thread(postgres.start)
                begun = time.monotonic()
                await load.progress()
                recoveries.append(time.monotonic() - begun)
        assert server.process.poll() is None
        log = server.stop()

    await assert_settled_exactly_once(load)
    assert load.lost == 0, "every request was answered"
    assert set(load.refused) <= {"database_unavailable", "outcome_unknown"}
    assert "Traceback" not in log, log
    figure(
        f"postgresql: {STOPS} immediate stops under load, {len(load.acknowledged)} transfers, "
        f"each once; {load.refused['outcome_unknown']} answers were outcome_unknown, and "
        f"{load.replayed} transfers had moved by then; writing again {max(recoveries):.2f} s after "
        "PostgreSQL at most"
    )
