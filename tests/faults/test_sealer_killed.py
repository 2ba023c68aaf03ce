"""Servers are killed under load while they seal, and started again, as a supervisor would."""

import asyncio
import random
import statistics
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from ousel.database.addresses import open_database
from ousel.database.port import Database
from ousel.kernel.clock import MICROS_PER_SECOND
from ousel.ledger.movements import unsealed_batches
from ousel.ledger.places import count_places
from ousel.sealed_log import store
from ousel.sealed_log.keys import new_key, origin_at, write_key
from ousel.sealed_log.notes import VerifierKey
from ousel.sealed_log.receipt_check import check_receipt
from tests.faults.load import Load, assert_settled_exactly_once
from tests.faults.sizes import FULL, KILLS, MOVEMENTS_SEALED, sized
from tests.sealed_log.logs import Log
from tests.support.engines import Engine
from tests.support.figures import Figure
from tests.support.raw_sql import RawSql
from tests.support.seeded import SeededDatabase
from tests.support.server import Server
from tests.support.waiting import until_async

pytestmark = pytest.mark.slow

PORTAL = "https://pay.example"
BETWEEN_SECONDS = 0.05
KILL_SECONDS_MAX = sized(0.4, 2.0)  # from a start to the next kill; sealing takes up to a second
WATCH_SECONDS = 0.02
AFTER_A_KILL_SECONDS = sized(0.0, 10.0)
QUIET_SECONDS = sized(0.0, 30.0)
READY_SECONDS_MAX, READY_AFTER_A_KILL_SECONDS_MAX = 3.0, 10.0
READERS = 8


class GrowthRecord:
    """When the log was first seen at each size."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sizes = [0]
        self._times = [0.0]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look at the log again and again during a block, and once more at its end."""
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()
        await self._look()

    def time_of(self, index: int) -> float:
        """Return when the leaf with this index was first seen."""
        return self._times[bisect_right(self._sizes, index)]

    async def _watch(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(WATCH_SECONDS)

    async def _look(self) -> None:
        size = (await self._database.read(store.read_head)).size
        if size > self._sizes[-1]:
            self._sizes.append(size)
            self._times.append(time.time())


@pytest.fixture
def servers(seeded: SeededDatabase, engine: Engine, tmp_path: Path) -> Iterator[list[Server]]:
    """One server on SQLite, two on PostgreSQL; the test kills them."""
    path = tmp_path / "log-key"
    write_key(path, new_key(origin_at(PORTAL)))
    with ExitStack() as running:
        yield [
            running.enter_context(
                Server(
                    seeded.url,
                    OUSEL_LOG_LEVEL="error",
                    OUSEL_LOG_KEY_FILE=str(path),
                    OUSEL_PORTAL_URL=PORTAL,
                )
            )
            for _ in range(2 if engine == "postgresql" else 1)
        ]


async def test_killed_sealers_leave_no_gap_and_no_leaf_twice(
    seeded: SeededDatabase,
    servers: list[Server],
    engine: Engine,
    chance: random.Random,
    figure: Figure,
    tmp_path: Path,
) -> None:
    """Every movement has exactly one leaf and a receipt, which is soon ready."""
    load = Load(seeded, *(each.port for each in servers), between_seconds=BETWEEN_SECONDS)
    async with open_database(seeded.url) as database:
        growth = GrowthRecord(database)
        begun = time.time()
        async with growth.running():
            async with load.running():
                for _ in range(KILLS):
                    await load.progress()
                    await asyncio.sleep(chance.uniform(0, KILL_SECONDS_MAX))
                    await asyncio.to_thread(_restart, chance.choice(servers))
                quiet_from = time.time() + AFTER_A_KILL_SECONDS
                quiet_until = quiet_from + QUIET_SECONDS
                while time.time() < quiet_until or len(load.acknowledged) < MOVEMENTS_SEALED:
                    await load.progress()

            async def is_sealed() -> bool:
                return not await database.read(lambda each: unsealed_batches(each, 1))

            await until_async(is_sealed)
        log = Log(database, tmp_path, PORTAL)
        leaves = await log.assert_complete()

    await assert_settled_exactly_once(load)
    assert log.key_holder.key is not None
    await _assert_all_receipts_check(load, servers[0], log.key_holder.key.verifier)
    waited = await _waits(seeded, growth, begun)
    after_kills = [seconds for created_at, seconds in waited if created_at < quiet_from]
    in_quiet = [seconds for created_at, seconds in waited if created_at >= quiet_from]
    figure(f"{engine}: {KILLS} kills of a server that seals, {leaves} movements, one leaf each")
    figure(f"{engine}: receipts ready {_spread(after_kills)} with kills, {_spread(in_quiet)} after")
    if FULL:
        assert max(after_kills) <= READY_AFTER_A_KILL_SECONDS_MAX
        assert max(in_quiet) <= READY_SECONDS_MAX


def _restart(server: Server) -> None:
    server.process.kill()
    server.stop()
    server.__enter__()


async def _assert_all_receipts_check(load: Load, server: Server, key: VerifierKey) -> None:
    """Fetch the sender's receipt of each transfer, and check it."""
    transfer_ids = iter(load.acknowledged.values())

    async def check_receipts() -> None:
        async with server.client(load.seeded.key) as client:
            for transfer_id in transfer_ids:
                answer = await client.get(f"/transfers/{transfer_id}/receipt")
                checked = check_receipt(answer.content, [key])
                assert checked.movement.id == transfer_id

    await asyncio.gather(*(check_receipts() for _ in range(READERS)))


async def _waits(
    seeded: SeededDatabase, growth: GrowthRecord, begun: float
) -> list[tuple[float, float]]:
    """Return when each movement since then was made, and how many seconds later it was sealed."""
    async with RawSql(seeded.url) as raw_sql:
        rows = await raw_sql.run(
            "SELECT first_index, created_at, movements FROM sealed_batches WHERE created_at > ?",
            int(begun * MICROS_PER_SECOND),
        )
    return [
        (created_at, growth.time_of(first + at) - created_at)
        for first, date, movements in rows
        for created_at in [date / MICROS_PER_SECOND]
        for at in range(count_places(movements))
    ]


def _spread(seconds: Sequence[float]) -> str:
    if len(seconds) < 2:
        return "(too few to say)"
    percentiles = statistics.quantiles(seconds, n=100)
    return f"p50 {percentiles[49]:.2f}, p99 {percentiles[98]:.2f}, longest {max(seconds):.2f} s"
