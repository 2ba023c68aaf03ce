"""Waiting in real server processes: payments elsewhere, thousands who wait, and the end."""

import asyncio
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ousel.database.addresses import database_at
from ousel.kernel.clock import system_clock
from tests.charges.shops import Shop, beside, open_shop
from tests.support.engines import Engine, Engines
from tests.support.servers import Server
from tests.support.waiting import until

pytestmark = pytest.mark.slow

WAITING = 2_000
MEMORY_BYTES_MAX = 150 * 1024 * 1024
CPU_SHARE_MAX = 0.25
MEASURED_SECONDS = 5.0

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
def sandbox_url(engines: Engines, tmp_path: Path) -> str:
    """The address of a fresh database on PostgreSQL, for several processes."""
    return engines.fresh_url("postgresql", tmp_path)


@pytest.fixture
def sandboxes(sandbox_url: str) -> Iterator[list[Server]]:
    """Two server processes on it."""
    with Server(sandbox_url, "--sandbox") as one, Server(sandbox_url, "--sandbox") as another:
        yield [one, another]


async def test_a_payment_at_another_server_is_heard_within_a_second(
    sandbox_url: str, sandboxes: list[Server]
) -> None:
    """A wait at one server process ends within a second of a payment at another."""
    database = database_at(sandbox_url)
    await database.open()
    shop = await open_shop(database, system_clock, kind="test")
    here, there = sandboxes
    late: list[float] = []
    async with here.client(shop.key) as waiter, there.client(shop.key) as payer:
        for _ in range(10):
            charge_id = (await waiter.post("/charges", json={"amount": 1})).json()["id"]
            waiting = asyncio.create_task(
                waiter.get(f"/charges/{charge_id}", headers={"Prefer": "wait=30"})
            )
            await asyncio.sleep(0.3)
            paid = await payer.post(
                f"/sandbox/charges/{charge_id}/pay", json={"payer": f"@{shop.payer.username}"}
            )
            answered = time.perf_counter()
            heard = await waiting
            late.append(time.perf_counter() - answered)
            assert (paid.status_code, heard.json()["status"]) == (200, "paid")

    await database.close()
    sys.stdout.write(f"\na payment elsewhere was heard after {max(late):.3f} s at most, of 10\n")
    assert max(late) < 1


async def test_a_server_that_stops_answers_all_who_wait(
    database_url: str, engine: Engine, shop: Shop
) -> None:
    """On SIGTERM those who wait get their present answer, at once and not a reset."""
    charge = await beside(shop, system_clock).charge()
    for options in [()] if engine == "sqlite" else [(), ("--workers", "2")]:
        with Server(database_url, *options) as server:
            waiting = await all_waiting(server, shop.key, [charge.id] * 100)
            await asyncio.sleep(1)
            assert not any(each.done() for each in waiting)
            server.process.send_signal(signal.SIGTERM)
            answers = await asyncio.wait_for(asyncio.gather(*waiting), 10)

        assert set(answers) == {"created"}


async def test_thousands_wait_at_little_cost(database_url: str, engine: Engine, shop: Shop) -> None:
    """2,000 waits cost little memory and CPU, hear of payments, and end well on SIGTERM."""
    live = beside(shop, system_clock)
    charges = await live.many_charges(WAITING, amount=1)
    with Server(database_url) as server:
        process = psutil.Process(server.process.pid)
        before = process.memory_info().rss
        waiting = await all_waiting(server, shop.key, [charge.id for charge in charges])
        cpu_before = sum(process.cpu_times()[:2])
        await asyncio.sleep(MEASURED_SECONDS)
        assert not any(each.done() for each in waiting)
        cpu_share = (sum(process.cpu_times()[:2]) - cpu_before) / MEASURED_SECONDS
        more = process.memory_info().rss - before
        sys.stdout.write(
            f"\n{engine}: {WAITING} who wait cost {more / 1e6:.1f} MB and {cpu_share:.1%} CPU\n"
        )
        await asyncio.gather(*(live.pay(charge) for charge in charges[:100]))
        paid = await asyncio.wait_for(asyncio.gather(*waiting[:100]), 10)
        server.process.send_signal(signal.SIGTERM)
        rest = await asyncio.wait_for(asyncio.gather(*waiting[100:]), 10)

    assert set(paid) == {"paid"}
    assert set(rest) == {"created"}
    assert more < MEMORY_BYTES_MAX
    assert cpu_share < CPU_SHARE_MAX


async def all_waiting(server: Server, key: str, charge_ids: list[str]) -> "list[asyncio.Task[str]]":
    """Wait for each charge on a connection of its own; return once the server knows of all."""
    asked = await asyncio.gather(*(_asked(server, key, charge_id) for charge_id in charge_ids))
    await until(lambda: not server.bytes_unread())
    return [asyncio.create_task(_told(*streams)) for streams in asked]


async def _asked(server: Server, key: str, charge_id: str) -> Streams:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(
        f"GET /v1/charges/{charge_id} HTTP/1.1\r\nHost: ousel\r\nPrefer: wait=60\r\n"
        f"Authorization: Bearer {key}\r\nConnection: close\r\n\r\n".encode()
    )
    return reader, writer


async def _told(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    answer = (await reader.read()).decode()
    writer.close()
    assert answer.startswith("HTTP/1.1 200 "), answer[:200]
    return answer.partition('"status":"')[2].partition('"')[0]
