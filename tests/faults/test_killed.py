"""The server is killed under load and started again, as a supervisor would."""

import asyncio
import random
import time

import pytest

from tests.faults.load import Load, assert_settled_exactly_once
from tests.faults.sizes import KILLS
from tests.support.engines import Engine
from tests.support.figures import Figure
from tests.support.seeded import SeededDatabase
from tests.support.server import Server

pytestmark = pytest.mark.slow


async def test_a_server_that_is_killed_loses_and_doubles_nothing(
    seeded: SeededDatabase, engine: Engine, chance: random.Random, figure: Figure
) -> None:
    """After every SIGKILL the ledger has each acknowledged transfer once, and retries succeed."""
    restarts: list[float] = []
    with Server(seeded.url, OUSEL_LOG_LEVEL="error") as server:
        load = Load(seeded, server.port, between_seconds=0)
        async with load.running():
            for _ in range(KILLS):
                await load.progress()
                await asyncio.sleep(chance.uniform(0, 0.2))  # the kill comes at a random moment
                server.process.kill()
                begun = time.monotonic()
                await asyncio.to_thread(server.stop)
                await asyncio.to_thread(server.__enter__)
                restarts.append(time.monotonic() - begun)
            await load.progress()

    await assert_settled_exactly_once(load)
    assert load.lost >= KILLS, "a kill that cuts off nobody proves nothing"
    figure(
        f"{engine}: {KILLS} kills under load, {len(load.acknowledged)} transfers, each once; "
        f"{load.replayed} had moved though their answer was lost; "
        f"serving again after {max(restarts):.2f} s at most"
    )
