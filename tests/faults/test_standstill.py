"""A server stands still, as a stopped process does: what is too old when it goes on is refused."""

import asyncio
import signal

import pytest

from tests.support.problems import assert_problem
from tests.support.raw_http import exchange, request
from tests.support.seeded import SeededDatabase
from tests.support.server import Server
from tests.support.waiting import until, until_async

pytestmark = pytest.mark.slow

DEADLINE_SECONDS = 1
BODY = b'{"to": "@ada", "amount": 1}'


async def test_a_request_that_waited_for_a_standing_server_moves_nothing(
    seeded: SeededDatabase,
) -> None:
    """Its deadline began while the server stood still, whether the connection is new or not."""
    headers = {"Authorization": f"Bearer {seeded.key}", "Content-Type": "application/json"}
    raw = request(
        "POST", "/v1/transfers", [*headers.items(), ("Content-Length", f"{len(BODY)}")], BODY
    )
    environment = {"OUSEL_LOG_LEVEL": "error", "OUSEL_DEADLINE_SECONDS": f"{DEADLINE_SECONDS}"}
    with Server(seeded.url, **environment) as server:
        async with server.client(seeded.key) as client:
            before = (await client.get("/balance")).json()
            server.process.send_signal(signal.SIGSTOP)
            sent = [
                asyncio.create_task(client.post("/transfers", content=BODY, headers=headers)),
                asyncio.create_task(exchange(server.port, raw)),
            ]
            await until(lambda: server.bytes_unread() > len(raw))
            await asyncio.sleep(DEADLINE_SECONDS + 2)
            server.process.send_signal(signal.SIGCONT)
            late = await asyncio.gather(*sent)
            after = (await client.get("/balance")).json()

            async def is_made() -> bool:
                answer = await client.post("/transfers", content=BODY, headers=headers)
                return answer.status_code == 201

            await until_async(is_made)

    for answer in late:
        assert_problem(answer, 503, "deadline_exceeded")
    assert after == before
