"""More transfers arrive than can be written: the queue is limited and refuses the rest."""

import asyncio
import time

import httpx2
import pytest

from tests.faults.load import Load, assert_settled_exactly_once
from tests.support.engines import Engine
from tests.support.figures import Figure
from tests.support.problems import assert_problem
from tests.support.raw_sql import RawSql
from tests.support.seeded import SeededDatabase
from tests.support.server import Server
from tests.support.waiting import until

pytestmark = pytest.mark.slow

QUEUE_LIMIT = 4
SENDERS = 16
HELD_SECONDS = 0.2
HOLD: dict[Engine, list[str]] = {
    "sqlite": ["BEGIN IMMEDIATE"],
    "postgresql": ["BEGIN", "LOCK TABLE accounts IN EXCLUSIVE MODE"],
}


async def test_a_full_queue_refuses_at_once_and_empties(
    seeded: SeededDatabase, engine: Engine, figure: Figure
) -> None:
    """While nothing can be written, what exceeds the queue gets 503 with Retry-After at once."""
    with Server(seeded.url, OUSEL_LOG_LEVEL="error", OUSEL_QUEUE_LIMIT=str(QUEUE_LIMIT)) as server:
        load = Load(seeded, server.port)
        async with (
            RawSql(seeded.url) as holding,
            server.client(seeded.key) as client,
            load.running(workers=SENDERS),
        ):
            await load.progress()
            for statement in HOLD[engine]:
                await holding.run(statement)
            before = load.refused.total()
            await until(lambda: load.refused.total() > before + SENDERS)  # not all from before
            answer, seconds = await _refusal(client)
            balance = await client.get("/balance")
            await asyncio.sleep(HELD_SECONDS)  # the queue stays full for a while
            await holding.run("COMMIT")
            await load.progress()

    await assert_settled_exactly_once(load)
    assert_problem(answer, 503, "queue_full")
    assert answer.headers["Retry-After"] == "1"
    assert balance.status_code == 200
    assert load.refused["queue_full"] > SENDERS
    # If a busy machine holds them for seconds, those in the queue are refused as well.
    assert set(load.refused) <= {"queue_full", "database_unavailable"}
    figure(
        f"{engine}: writes held for {HELD_SECONDS} s, {load.refused.total()} refused, one in "
        f"{seconds * 1000:.0f} ms; {len(load.acknowledged)} transfers, each once"
    )


async def _refusal(client: httpx2.AsyncClient) -> tuple[httpx2.Response, float]:
    """Send a transfer while the queue is full; return its refusal and how long it took.

    On a busy machine, what waits in the queue may be refused before: then there is room in it.
    """
    while True:
        begun = time.monotonic()
        answer = await client.post("/transfers", json={"to": "@ada", "amount": 1})
        if answer.json()["code"] != "database_unavailable":
            return answer, time.monotonic() - begun
