"""Servers are killed under load while they seal, and started again, as a supervisor would."""

import asyncio
import random
from contextlib import ExitStack
from pathlib import Path

import pytest

from ousel.database.addresses import open_database
from ousel.ledger.movements import unsealed_batches
from ousel.sealed_log.keys import new_key, write_key
from tests.faults.load import Load, assert_settled_exactly_once
from tests.faults.sizes import KILLS
from tests.sealed_log.logs import Log
from tests.support.engines import Engine
from tests.support.figures import Figure
from tests.support.seeded import SeededDatabase
from tests.support.server import Server
from tests.support.waiting import until_async

pytestmark = pytest.mark.slow

PORTAL = "https://pay.example"


async def test_killed_sealers_leave_no_gap_and_no_leaf_twice(
    seeded: SeededDatabase, engine: Engine, chance: random.Random, figure: Figure, tmp_path: Path
) -> None:
    """Every movement has exactly one leaf: one server on SQLite, two on PostgreSQL."""
    key = tmp_path / "log-key"
    write_key(key, new_key("pay.example/log"))
    environment = {
        "OUSEL_LOG_LEVEL": "error",
        "OUSEL_LOG_KEY_FILE": str(key),
        "OUSEL_PORTAL_URL": PORTAL,
    }
    with ExitStack() as servers:
        server = servers.enter_context(Server(seeded.url, **environment))
        if engine == "postgresql":
            servers.enter_context(Server(seeded.url, **environment))
        load = Load(seeded, server.port, between_seconds=0)
        async with load.running():
            for _ in range(KILLS):
                await load.progress()
                await asyncio.sleep(chance.uniform(0, 0.4))  # the kill comes at a random moment
                server.process.kill()
                await asyncio.to_thread(server.stop)
                await asyncio.to_thread(server.__enter__)
            await load.progress()
        async with open_database(seeded.url) as database:

            async def is_sealed() -> bool:
                return not await database.read(lambda each: unsealed_batches(each, 1))

            await until_async(is_sealed)
            leaves = await Log(database, tmp_path, PORTAL).assert_complete()

    await assert_settled_exactly_once(load)
    figure(f"{engine}: {KILLS} kills of a server that seals, {leaves} movements, one leaf each")
