"""Answers are lost after the commit; a retry with the same key finds out what happened."""

import random

import pytest

from clients.python.tests.faults import FaultProxy
from tests.faults.load import Load, assert_settled_exactly_once
from tests.faults.sizes import SEED, TRANSFERS_THROUGH_A_PROXY
from tests.support.engines import Engine
from tests.support.figures import Figure
from tests.support.seeded import SeededDatabase
from tests.support.server import Server

pytestmark = pytest.mark.slow

LOST_SHARE = 0.05


async def test_a_lost_answer_is_told_again(
    seeded: SeededDatabase, engine: Engine, chance: random.Random, figure: Figure
) -> None:
    """5 % of the answers are lost after the commit; each transfer is acknowledged once."""
    count = TRANSFERS_THROUGH_A_PROXY
    with Server(seeded.url, OUSEL_LOG_LEVEL="error") as server:
        async with FaultProxy(server.port, seed=SEED, chance=0) as proxy:
            proxy.planned = [
                "answer lost" if chance.random() < LOST_SHARE else None for _ in range(2 * count)
            ]
            load = Load(seeded, int(proxy.base_url.rpartition(":")[2].partition("/")[0]))
            async with load.running(count):
                pass
        log = server.stop()

    await assert_settled_exactly_once(load)
    assert log == ""
    assert len(load.acknowledged) == count
    assert load.lost == proxy.met["answer lost"] > 0
    assert load.anew == 0, "a committed transfer is replayed, not repeated"
    figure(
        f"{engine}: {count} transfers through a proxy that lost {load.lost} answers after their "
        f"commit: each moved once and was acknowledged in the end"
    )
