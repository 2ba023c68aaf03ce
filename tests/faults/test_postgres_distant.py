"""The connection to PostgreSQL is cut during commits, or is slow."""

import asyncio
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.load import WORKERS, Load, assert_settled_exactly_once
from tests.faults.sizes import COMMITS_CUT
from tests.support.engines import Engines
from tests.support.figures import Figure
from tests.support.postgres_proxy import Cut, PostgresProxy
from tests.support.seeded import SeededDatabase
from tests.support.server import Server
from tests.support.waiting import until

pytestmark = pytest.mark.slow

CUTS: tuple[Cut, ...] = ("before the commit", "after the commit")
SLOW_SECONDS = 0.1
SLOW_TRANSFERS = 300


@pytest.fixture
def database_url(engines: Engines, tmp_path: Path) -> Iterator[str]:
    """The address of a fresh database on PostgreSQL."""
    url = engines.fresh_url("postgresql", tmp_path)
    yield url
    engines.give_back(url)


async def started(url: str) -> Server:
    """Start a server in a thread, while this process forwards its connection to PostgreSQL."""
    return await asyncio.to_thread(Server(url, OUSEL_LOG_LEVEL="error").__enter__)


async def test_cuts_in_the_midst_of_commits_move_nothing_twice(
    seeded: SeededDatabase, chance: random.Random, figure: Figure
) -> None:
    """Cuts come before or after a commit; each transfer moves and is answered once."""
    async with PostgresProxy(seeded.url) as wire:
        server = await started(wire.url)
        try:
            load = Load(seeded, server.port)
            left = COMMITS_CUT
            async with load.running():
                while left:
                    await load.progress()
                    in_a_row = chance.randint(1, min(3, left))
                    wire.cuts.extend(chance.choices(CUTS, k=in_a_row))
                    left -= in_a_row
                    await until(lambda: not wire.cuts)
        finally:
            log = await asyncio.to_thread(server.stop)

    await assert_settled_exactly_once(load)
    assert load.lost == 0
    assert load.refused.total() == 0, "the journal settles it: no caller hears of it"
    assert "Traceback" not in log, log
    figure(
        f"postgresql: {COMMITS_CUT} connections cut at their commit under load, "
        f"{len(load.acknowledged)} transfers, each once, none refused; the longest took "
        f"{load.longest_seconds:.2f} s"
    )


async def test_a_slow_database_slows_and_breaks_nothing(
    seeded: SeededDatabase, figure: Figure
) -> None:
    """Each message takes 100 ms; waiting transfers share batches, none is refused."""
    async with PostgresProxy(seeded.url) as wire:
        server = await started(wire.url)
        try:
            load = Load(seeded, server.port)
            async with load.running(WORKERS):  # what is prepared once is prepared
                pass
            wire.delay_seconds = SLOW_SECONDS
            before, begun = wire.round_trips, time.monotonic()
            async with load.running(SLOW_TRANSFERS, workers=100):
                pass
            round_trips, seconds = wire.round_trips - before, time.monotonic() - begun
        finally:
            wire.delay_seconds = 0.0
            log = await asyncio.to_thread(server.stop)

    await assert_settled_exactly_once(load)
    assert load.lost + load.refused.total() == 0
    assert log == ""
    assert round_trips < SLOW_TRANSFERS, "one after the other would need several for each"
    figure(
        f"postgresql: {SLOW_TRANSFERS} transfers of 100 clients over a connection slowed by "
        f"{SLOW_SECONDS * 1000:.0f} ms a message in {seconds:.1f} s, none refused; the longest "
        f"took {load.longest_seconds:.2f} s"
    )
