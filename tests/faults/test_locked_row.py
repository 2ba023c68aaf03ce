"""Somebody keeps one account locked: only its own transfers wait, and none moves after its time."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

import httpx2
import msgspec
import pytest

from ousel.database.port import Database
from ousel.kernel.settings import DEADLINE_SECONDS_MAX
from tests.faults.paced import PacedPlan, PacedTally
from tests.faults.sizes import FULL, sized
from tests.support.accounts import verify
from tests.support.engines import Engine
from tests.support.figures import Figure
from tests.support.raw_sql import RawSql
from tests.support.seeded import PEOPLE, SeededDatabase
from tests.support.server import Server

pytestmark = pytest.mark.slow

LOCK = "SELECT id FROM accounts WHERE username = 'ada' FOR UPDATE"
RATE = sized(100, 500)
LOCKED_SECONDS = sized(2.0, 60.0)
P99_SECONDS_MAX = 1.0
SENDERS = sized(200, 8_000)
DEADLINE_SECONDS = sized(1, 30)
GONE_SECONDS = sized(0.5, 14.0)


@pytest.fixture
def engine() -> Engine:
    """Only PostgreSQL: SQLite has no row locks."""
    return "postgresql"


@pytest.fixture
def server(seeded: SeededDatabase) -> Iterator[Server]:
    """A server on the seeded database."""
    with Server(seeded.url, OUSEL_LOG_LEVEL="error") as running:
        yield running


@pytest.fixture
def hasty_server(seeded: SeededDatabase) -> Iterator[Server]:
    """A server with a short deadline, unless the tests run in full."""
    environment = {"OUSEL_LOG_LEVEL": "error", "OUSEL_DEADLINE_SECONDS": str(DEADLINE_SECONDS)}
    with Server(seeded.url, **environment) as running:
        yield running


def request_head(seeded: SeededDatabase, prefix: str) -> bytes:
    """Return the start of a request, up to the number in its idempotency key."""
    head = (
        "POST /v1/transfers HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {seeded.key}\r\nIdempotency-Key: {prefix}-"
    )
    return head.encode()


def request_tail(to: str) -> bytes:
    """Return the rest of a request that sends a cent to this person."""
    body = f'{{"to":"@{to}","amount":0.01}}'
    return f"\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


async def send_at_rate(
    seeded: SeededDatabase, server: Server, prefix: str, seconds: float
) -> PacedTally:
    """Send to everybody but Ada, at a fixed rate, from a process of its own."""
    plan = PacedPlan(
        port=server.port,
        connections=64,
        rate=RATE,
        seconds=seconds,
        head=request_head(seeded, prefix),
        tails=[request_tail(name) for name in PEOPLE if name != "ada"],
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults.paced"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    output, _ = await process.communicate(msgspec.json.encode(plan))
    return msgspec.json.decode(output, type=PacedTally)


async def test_one_locked_row_delays_nobody_else(
    seeded: SeededDatabase, database: Database, server: Server, figure: Figure
) -> None:
    """The sender of a transfer that waits, and everybody else, can go on sending."""
    async with RawSql(seeded.url) as holder, server.client(seeded.key) as client:
        calm = await send_at_rate(seeded, server, "calm", LOCKED_SECONDS / 4)
        await holder.run("BEGIN")
        await holder.run(LOCK)
        body = {"to": "@ada", "amount": 1}
        sent_at = time.monotonic()
        blocked = asyncio.create_task(client.post("/transfers", json=body, timeout=None))
        tally = await send_at_rate(seeded, server, "others", LOCKED_SECONDS)
        still_waits = not blocked.done()
        seconds = time.monotonic() - sent_at
        await holder.run("COMMIT")
        answer = await blocked

    assert tally.failed == 0
    assert tally.acknowledged == int(RATE * LOCKED_SECONDS)
    assert not (FULL and still_waits), "in full, the row is locked for longer than the deadline"
    assert still_waits or seconds >= DEADLINE_SECONDS_MAX  # unless the machine has stalled so long
    assert answer.status_code == (201 if still_waits else 503), answer.text
    # On a machine that is busy with other things, everything is slow, locked or not.
    assert not FULL or tally.p99_seconds < max(P99_SECONDS_MAX, 3 * calm.p99_seconds)
    await verify(database)
    figure(
        f"one row locked for {LOCKED_SECONDS:g} s at {RATE} unrelated transfers a second: none of "
        f"{tally.acknowledged} failed, p50 {tally.p50_seconds * 1000:.0f} ms, p99 "
        f"{tally.p99_seconds * 1000:.0f} ms (before: {calm.p99_seconds * 1000:.0f} ms), longest "
        f"{tally.longest_seconds * 1000:.0f} ms"
    )


async def until_answered(request: Callable[[], Awaitable[httpx2.Response]]) -> httpx2.Response:
    """Repeat a request while a busy machine exceeds its deadline; return the answer."""
    while (answer := await request()).status_code == 503:
        assert answer.json()["code"] == "deadline_exceeded", answer.text
    return answer


class Sender:
    """A client with a connection of its own, which leaves early or waits for its answer."""

    def __init__(self, seeded: SeededDatabase, port: int, number: int) -> None:
        self._port = port
        self._request = b"%b%d%b" % (request_head(seeded, "ada"), number, request_tail("ada"))
        self._leaves = number % 2 == 0

    async def send(self) -> bytes:
        """Send the transfer; return the start of the answer, or nothing after leaving."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(self._request)
            if not self._leaves:
                return await reader.readuntil(b"}")
            with suppress(TimeoutError):
                await asyncio.wait_for(reader.read(1), GONE_SECONDS)
            return b""
        finally:
            writer.close()


async def test_a_transfer_that_was_given_up_moves_nothing_later(
    seeded: SeededDatabase, database: Database, hasty_server: Server, figure: Figure
) -> None:
    """Many senders wait for one locked row, and leave or are refused; then the row is free."""
    async with RawSql(seeded.url) as holder, hasty_server.client(seeded.key) as client:
        await holder.run("BEGIN")
        await holder.run(LOCK)
        senders = [Sender(seeded, hasty_server.port, number) for number in range(SENDERS)]
        answers = await asyncio.gather(*(sender.send() for sender in senders))
        found = await until_answered(
            lambda: client.get("/transfers", params={"idempotency_key": "ada-1"})
        )
        await holder.run("COMMIT")
        # The row is free: whatever still waited for it would be written before this one.
        after = await until_answered(
            lambda: client.post("/transfers", json={"to": "@ada", "amount": 1})
        )

    refused = [answer for answer in answers if answer]
    assert len(refused) == SENDERS // 2
    assert all(b"deadline_exceeded" in answer for answer in refused)
    assert found.json()["data"] == []
    assert after.status_code == 201
    rows = await seeded.transfers()
    assert [each.idempotency_key for each in rows if each.idempotency_key] == []
    await verify(database)
    figure(f"{SENDERS} senders behind one locked row, half of them gone: none moved afterwards")
