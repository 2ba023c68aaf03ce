"""The server is asked to stop under load: it answers every request that it has accepted."""

import asyncio
import random
import signal

import pytest

from tests.faults.load import Load, assert_settled_exactly_once
from tests.faults.sizes import TERMINATIONS
from tests.support.engines import Engine
from tests.support.figures import Figure
from tests.support.seeded import SeededDatabase
from tests.support.server import Server

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("usual_signals")
@pytest.mark.parametrize(
    ("engine", "stop"),
    [
        ("sqlite", signal.SIGTERM),
        ("postgresql", signal.SIGTERM),
        ("sqlite", signal.SIGHUP),
    ],
    ids=["asked, sqlite", "asked, postgresql", "hung up"],
)
async def test_a_server_that_is_asked_to_stop_answers_what_it_took_on(
    seeded: SeededDatabase,
    engine: Engine,
    chance: random.Random,
    figure: Figure,
    stop: signal.Signals,
) -> None:
    """After the signal every transfer that moved money has been acknowledged."""
    server = Server(seeded.url, OUSEL_LOG_LEVEL="error")
    load = Load(seeded, server.port, patient=False, between_seconds=0)
    refused_after_signal = 0
    for _ in range(TERMINATIONS):
        with server:
            async with load.running():
                await load.progress()
                await asyncio.sleep(chance.uniform(0, 0.2))  # the signal comes at a random moment
                log = await asyncio.to_thread(server.stop, stop)
        assert server.process.returncode == -signal.SIGTERM
        assert log == ""
        acknowledged = {load.key(number) for number in load.acknowledged}
        assert {each.idempotency_key for each in await seeded.transfers()} == acknowledged
        refused_after_signal += len(load.unanswered)
        load.unanswered.clear()

    await assert_settled_exactly_once(load)
    figure(
        f"{engine}: {TERMINATIONS} times {stop.name} under load, {len(load.acknowledged)} "
        f"transfers, all answered; {refused_after_signal} requests came too late and moved "
        "nothing"
    )
