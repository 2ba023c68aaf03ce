"""Requests that a server reads late, because it stood still or was just replaced, are as old."""

import asyncio
import signal
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.support.problems import assert_problem
from tests.support.raw_http import exchange, request
from tests.support.seeded import SeededDatabase, seed_database
from tests.support.server import Server
from tests.support.waiting import until, until_async

if TYPE_CHECKING:
    import httpx2

pytestmark = pytest.mark.slow

DEADLINE_SECONDS = 1
ANSWER_SECONDS_MAX = 200.0  # long, because the machine may be busy
BODY = b'{"to": "@ada", "amount": 1}'
ENVIRONMENT = {"OUSEL_LOG_LEVEL": "error", "OUSEL_DEADLINE_SECONDS": f"{DEADLINE_SECONDS}"}


async def test_a_request_that_waited_for_a_standing_server_moves_nothing(
    seeded: SeededDatabase,
) -> None:
    """Its deadline began while the server stood still, whether the connection is new or not."""
    headers = {"Content-Type": "application/json"}
    with Server(seeded.url, **ENVIRONMENT) as server:
        async with server.client(seeded.key) as client:
            before = (await client.get("/balance")).json()
            server.process.send_signal(signal.SIGSTOP)
            used = asyncio.create_task(client.post("/transfers", content=BODY, headers=headers))
            new = await _send_unread(server, seeded)
            server.process.send_signal(signal.SIGCONT)
            late = await asyncio.gather(used, new)
            after = (await client.get("/balance")).json()

            async def is_made() -> bool:
                answer = await client.post("/transfers", content=BODY, headers=headers)
                return answer.status_code == 201

            await until_async(is_made)

    for answer in late:
        assert_problem(answer, 503, "deadline_exceeded")
    assert after == before


async def test_a_request_that_waited_for_a_new_process_moves_nothing(postgres_url: str) -> None:
    """The listening socket stays open while all processes that read from it are replaced."""
    seeded = await seed_database(postgres_url)
    with Server(seeded.url, "--workers=2", **ENVIRONMENT) as server:
        server.process.send_signal(signal.SIGSTOP)
        for process in psutil.Process(server.process.pid).children():
            process.kill()
        sent = await _send_unread(server, seeded)
        server.process.send_signal(signal.SIGCONT)
        answer = await sent

    assert_problem(answer, 503, "deadline_exceeded")
    assert await seeded.transfers() == []


async def _send_unread(server: Server, seeded: SeededDatabase) -> "asyncio.Task[httpx2.Response]":
    """Send a transfer on a new connection, and wait for longer than its deadline."""
    headers = [
        ("Authorization", f"Bearer {seeded.key}"),
        ("Content-Type", "application/json"),
        ("Content-Length", f"{len(BODY)}"),
    ]
    transfer = request("POST", "/v1/transfers", headers, BODY)
    answer = asyncio.create_task(exchange(server.port, transfer, seconds_max=ANSWER_SECONDS_MAX))
    await until(lambda: server.bytes_unread() >= len(transfer))
    await asyncio.sleep(DEADLINE_SECONDS + 1)
    return answer
