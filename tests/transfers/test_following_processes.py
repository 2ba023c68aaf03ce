"""Thousands of followers wait in one server process while money moves in another."""

import asyncio
import signal
import statistics
import time
from collections.abc import Callable
from functools import partial

import httpx2
import msgspec
import psutil
import pytest

from ousel.workload.sample_data import SampleData, create_sample_data
from tests.faults.sizes import sized
from tests.support.engines import Engine
from tests.support.server import Server
from tests.support.waiting import least_cpu_share, until

pytestmark = pytest.mark.slow

FOLLOWERS = sized(150, 2_000)
MEMORY_BYTES_MAX = 50 * 1024 * 1024
CPU_SHARE_MAX = 0.25  # much more than it takes, because the machine may be busy
CALM_SECONDS = sized(0.5, 10.0)
PAIRS = sized(20, 500)  # each transfer is awaited by its sender and its recipient
PAUSE_SECONDS = 0.02

Figure = Callable[[str, object], None]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Follower:
    """A partner that waits for its next transfer, on a connection of its own."""

    def __init__(self, server: Server, key: str) -> None:
        self._server = server
        self._request = (
            "GET /v1/transfers?order=oldest&cursor=1 HTTP/1.1\r\nHost: ousel\r\nPrefer: wait=60\r\n"
            f"Authorization: Bearer {key}\r\nConnection: close\r\n\r\n"
        ).encode()
        self.is_patient = True  # asks again after an empty answer

    async def begin(self) -> None:
        """Ask for what comes after the first transfer."""
        streams = await self._ask()
        self.answer = asyncio.create_task(self._wait(streams))

    async def _ask(self) -> Streams:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._server.port)
        writer.write(self._request)
        return reader, writer

    async def _wait(self, streams: Streams) -> tuple[float, list[str]]:
        """Return when an answer with a transfer came, and the ids of its transfers."""
        transfers = await _read(*streams)
        while not transfers and self.is_patient:
            transfers = await _read(*await self._ask())
        return time.perf_counter(), transfers


async def test_followers_wait_at_little_cost_and_hear_of_movements_elsewhere(
    database_url: str, engine: Engine, record_property: Figure
) -> None:
    """They need little memory and processor time, and hear of movements and of SIGTERM."""
    data = await asyncio.to_thread(partial(create_sample_data, database_url, FOLLOWERS, 0))
    with Server(database_url) as here, Server(database_url) as there:
        process = psutil.Process(here.process.pid)
        followers = [Follower(here, key) for key in data.keys]
        await asyncio.gather(*(_warm_up(here, key) for key in data.keys[:50]))
        memory_before = process.memory_info().rss
        await asyncio.gather(*(follower.begin() for follower in followers))
        await until(lambda: not here.bytes_unread())
        answers = [follower.answer for follower in followers]
        cpu_share = await least_cpu_share(process, answers, CALM_SECONDS)
        memory_bytes = process.memory_info().rss - memory_before
        delays = await _move_money(there, data, followers)
        for follower in followers:
            follower.is_patient = False
        here.process.send_signal(signal.SIGTERM)
        rest = await asyncio.gather(*answers[PAIRS:-PAIRS])

    waits = f"{engine}: {FOLLOWERS} followers cost {memory_bytes / 1e6:.1f} MB and {cpu_share:.1%}"
    p99 = statistics.quantiles(delays, n=100)[98]
    record_property("figure", f"{waits} of a core; they heard of transfers after {p99:.3f} s (p99)")
    assert {tuple(transfers) for _, transfers in rest} == {()}
    assert memory_bytes < MEMORY_BYTES_MAX
    assert cpu_share < CPU_SHARE_MAX


async def _warm_up(server: Server, key: str) -> None:
    """Let the server allocate what it needs for any request."""
    async with server.client(key) as client:
        assert (await client.get("/transfers?order=oldest")).status_code == 200


async def _move_money(server: Server, data: SampleData, followers: list[Follower]) -> list[float]:
    """Send transfers through this server; return after how long their two sides heard of them."""
    delays: list[float] = []

    async def hear(follower: Follower, transfer_id: str, moved: float) -> None:
        answered, heard_of = await follower.answer
        assert heard_of == [transfer_id]
        delays.append(max(answered - moved, 0.0))

    hearing: list[asyncio.Task[None]] = []
    async with server.client() as client:
        for sender in range(PAIRS):
            recipient = len(followers) - 1 - sender
            transfer_id = await _send(client, data, sender, recipient)
            moved = time.perf_counter()
            hearing += [
                asyncio.create_task(hear(followers[side], transfer_id, moved))
                for side in (sender, recipient)
            ]
            await asyncio.sleep(PAUSE_SECONDS)  # spreads them over many polls
    await asyncio.gather(*hearing)
    return delays


async def _send(client: httpx2.AsyncClient, data: SampleData, sender: int, recipient: int) -> str:
    answer = await client.post(
        "/transfers",
        json={"to": f"@{data.partners[recipient].username}", "amount": 1},
        headers={"Authorization": f"Bearer {data.keys[sender]}"},
    )
    assert answer.status_code == 201, answer.text
    transfer_id: str = answer.json()["id"]
    return transfer_id


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[str]:
    """Return the ids of the transfers in the answer."""
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), answer[:200]
    return [record["id"] for record in msgspec.json.decode(body)["data"]]
