"""Floods of headers, chunks, searches and waits: how much slower others are answered."""

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest

from ousel.charges.payment import ChargePayments
from ousel.charges.rules import ChargeTerms
from ousel.charges.service import ChargeService
from ousel.database.addresses import open_database
from ousel.kernel.clock import system_clock
from ousel.kernel.ids import handle_of
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import KeyCheck
from ousel.transfers.posting import transfer_posting
from tests.faults.flooding import BEGUN
from tests.faults.sizes import sized
from tests.support.accounts import partner
from tests.support.engines import ENGINES, Engine
from tests.support.figures import Figure
from tests.support.seeded import SeededDatabase
from tests.support.server import Server

pytestmark = pytest.mark.slow

ENTRIES = sized(500, 12_000)
ROUNDS = sized(1, 9)
SECONDS = sized(0.2, 1.5)
RATE_LIMIT = "100/second"  # the default
PACE_SECONDS = 0.011  # between requests, to stay below it
# Headers and chunks are refused before the database is asked, so its engine does not matter.
FLOODS: tuple[tuple[str, Engine], ...] = (
    ("headers", "sqlite"),
    ("chunks", "sqlite"),
    *(("searches", engine) for engine in ENGINES),
    *(("waits", engine) for engine in ENGINES),
)


@pytest.mark.parametrize(("kind", "engine"), FLOODS)
async def test_others_are_served_during_a_flood(
    seeded: SeededDatabase, engine: Engine, figure: Figure, kind: str
) -> None:
    """Every request of another partner is answered; the figures compare it with calm times."""
    charge_id, other_key = await _prepare(seeded, ENTRIES if kind == "searches" else 0)
    path = f"/pay/{charge_id}/status" if kind == "waits" else "/v1/transfers?kind=funding&limit=1"
    calm: list[tuple[float, float]] = []
    flooded: list[tuple[float, float]] = []
    sent: list[int] = []
    with Server(seeded.url, OUSEL_LOG_LEVEL="error", OUSEL_RATE_LIMIT=RATE_LIMIT) as server:
        async with server.client(other_key) as client:
            await _percentiles(client)
            for _ in range(ROUNDS):
                calm.append(await _percentiles(client))
                with _flooding(kind, server.port, seeded.key, path, sent):
                    flooded.append(await _percentiles(client))

    calm_p50, calm_p99 = map(statistics.median, zip(*calm, strict=True))
    p50, p99 = map(statistics.median, zip(*flooded, strict=True))
    figure(
        f"{engine}, flood of {kind}: p50 {calm_p50 * 1e3:.1f} to {p50 * 1e3:.1f} ms, "
        f"p99 {calm_p99 * 1e3:.1f} to {p99 * 1e3:.1f} ms ({p99 / calm_p99:.1f}x), "
        f"{sum(sent)} requests in {ROUNDS} floods of {SECONDS} s"
    )


async def _prepare(seeded: SeededDatabase, entries: int) -> tuple[str, str]:
    """Return the id of a charge and another partner's key; give the partner a long history."""
    async with open_database(seeded.url) as database:
        other = await partner(database, "other", "1")
        queue = PostingQueue(
            database, system_clock, queue_limit=2 * ENTRIES, charge_rows=ChargePayments()
        )
        charges = ChargeService(database, queue, system_clock)
        terms = ChargeTerms(amount=1)
        created = await charges.create(seeded.account.id, seeded.app.id, terms, None)
        check = KeyCheck(seeded.account.id, handle_of(seeded.key))
        postings = (
            transfer_posting(check, "@ada", 1, None, None, system_clock) for _ in range(entries)
        )
        await asyncio.gather(*map(queue.post, postings))
        return created.charge.id, other.key


@contextmanager
def _flooding(kind: str, port: int, key: str, path: str, sent: list[int]) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.faults.flooding", kind, str(port), key, path]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == BEGUN
        yield
        assert process.poll() is None, "the flood has ended by itself"
    finally:
        process.terminate()
        output, _ = process.communicate()
    sent.append(int(output))


async def _percentiles(client: httpx2.AsyncClient) -> tuple[float, float]:
    """Ask for the balance again and again; return the median and the 99th percentile."""
    seconds: list[float] = []
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        started = time.perf_counter()
        answer = await client.get("/balance")
        seconds.append(time.perf_counter() - started)
        assert answer.status_code == 200, answer.text
        await asyncio.sleep(PACE_SECONDS)
    ordered = sorted(seconds)
    return ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
