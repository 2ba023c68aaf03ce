"""Waiting in server processes: payments in other processes, thousands of waits, shutdown."""

import asyncio
import signal
import sys

import msgspec
import psutil
import pytest

from ousel.kernel.clock import system_clock
from tests.faults.sizes import sized
from tests.support.engines import Engine
from tests.support.server import Server
from tests.support.shop import Shop, in_another_process
from tests.support.waiting import assert_none_ends, least_cpu_share, until

pytestmark = pytest.mark.slow

WAITS = sized(200, 2_000)
MEMORY_BYTES_MAX = 150 * 1024 * 1024
CPU_SHARE_MAX = 0.25
MEASURED_SECONDS = sized(0.5, 5.0)
IS_LAST = True  # an answer says that the connection ends
ANSWERED_SECONDS_MAX = 50.0  # of the 60 that they would wait

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
async def test_stopping_workers_answer_all_waits(database_url: str, shop: Shop) -> None:
    """On SIGTERM every wait is answered once, with the current charge; no connection is reset."""
    charge = await in_another_process(shop, system_clock).charge()
    with Server(database_url, "--workers", "2") as server:
        waiting = await start_waiting(server, shop.key, [charge.id] * 100)
        await assert_none_ends(*waiting, seconds=0.3)
        server.process.send_signal(signal.SIGTERM)
        answers = await asyncio.wait_for(asyncio.gather(*waiting), ANSWERED_SECONDS_MAX)

    assert set(answers) == {("created", IS_LAST)}


async def test_thousands_of_waits_cost_little(
    database_url: str, engine: Engine, shop: Shop
) -> None:
    """Many waits need little memory and CPU, end with payments, and are answered on SIGTERM."""
    live = in_another_process(shop, system_clock)
    charges = await live.many_charges(WAITS, amount=1)
    with Server(database_url) as server:
        process = psutil.Process(server.process.pid)
        before = process.memory_info().rss
        waiting = await start_waiting(server, shop.key, [charge.id for charge in charges])
        cpu_share = await least_cpu_share(process, waiting, MEASURED_SECONDS)
        memory_bytes = process.memory_info().rss - before
        sys.stdout.write(
            f"\n{engine}: {WAITS} waits cost {memory_bytes / 1e6:.1f} MB and {cpu_share:.1%} CPU\n"
        )
        await asyncio.gather(*(live.pay(charge) for charge in charges[:50]))
        paid = await asyncio.wait_for(asyncio.gather(*waiting[:50]), ANSWERED_SECONDS_MAX)
        server.process.send_signal(signal.SIGTERM)
        rest = await asyncio.wait_for(asyncio.gather(*waiting[50:]), ANSWERED_SECONDS_MAX)
        log = await asyncio.to_thread(server.stop)

    assert set(paid) == {("paid", not IS_LAST)}
    assert set(rest) == {("created", IS_LAST)}
    assert "Traceback" not in log
    assert memory_bytes < MEMORY_BYTES_MAX
    assert cpu_share < CPU_SHARE_MAX


async def start_waiting(
    server: Server, key: str, charge_ids: list[str]
) -> "list[asyncio.Task[tuple[str, bool]]]":
    """Wait for each charge on its own connection; return once the server has read all requests."""
    connections = await asyncio.gather(
        *(_send_request(server, key, charge_id) for charge_id in charge_ids)
    )
    await until(lambda: not server.bytes_unread())
    return [asyncio.create_task(_read_answer(*streams)) for streams in connections]


async def _send_request(server: Server, key: str, charge_id: str) -> Streams:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(
        f"GET /v1/charges/{charge_id} HTTP/1.1\r\nHost: ousel\r\nPrefer: wait=60\r\n"
        f"Authorization: Bearer {key}\r\n\r\n".encode()
    )
    return reader, writer


async def _read_answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> tuple[str, bool]:
    """Return the charge's status, and whether the answer is the last one on the connection."""
    status, *lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
    assert status == b"HTTP/1.1 200 OK"
    headers = dict(line.split(b": ", 1) for line in lines if line)
    charge = msgspec.json.decode(await reader.readexactly(int(headers[b"content-length"])))
    is_last = headers.get(b"connection") == b"close"
    if is_last:
        assert await reader.read() == b""  # fails if the connection is reset
    writer.close()
    return charge["status"], is_last
