"""The followers of PostgreSQL are gone: reads are answered, and writes resume by themselves."""

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import count

import httpx2
import pytest

from tests.faults.conftest import Figure
from tests.faults.sizes import NO_FOLLOWER_SECONDS
from tests.support.postgres_server import PostgresServer
from tests.support.raw_sql import RawSql
from tests.support.seeded import SeededDatabase, run_verify
from tests.support.server import Server
from tests.support.waiting import until

pytestmark = pytest.mark.slow

CALM_SECONDS = 3.0
WRITES_PER_SECOND = 20.0
READS_PER_SECOND = 40.0
SAMPLE_SECONDS = 0.2
BACKENDS_MAX = 10  # as the documentation says
BACKENDS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ousel'"


@pytest.fixture
def database_url(postgres: PostgresServer) -> str:
    """A fresh database on it."""
    return postgres.fresh_url()


class Traffic:
    """Reads and writes at a fixed rate, with every answer recorded."""

    def __init__(self, client: httpx2.AsyncClient, seeded: SeededDatabase) -> None:
        self._client = client
        self._seeded = seeded
        self.charges: list[str] = []  # to cancel
        self.read_seconds: list[float] = []
        self.failed_reads: list[str] = []
        self.codes: Counter[str] = Counter()  # of writes; "" for those that succeeded
        self.transfers: dict[str, str] = {}  # their codes by idempotency key
        self.succeeded_at = 0.0

    async def create_charges(self, number: int) -> None:
        """Create charges that can be canceled later."""
        for _ in range(0, number, 100):
            answers = await asyncio.gather(
                *(self._client.post("/charges", json={"amount": 1}) for _ in range(100))
            )
            self.charges += [answer.json()["id"] for answer in answers]

    async def read(self, number: int) -> None:
        """Read the balance or the last transfers."""
        begun = time.perf_counter()
        try:
            answer = await self._client.get("/transfers" if number % 2 else "/balance")
        except httpx2.TimeoutException as error:
            self.failed_reads.append(repr(error))
            return
        self.read_seconds.append(time.perf_counter() - begun)
        if answer.status_code != httpx2.codes.OK:
            self.failed_reads.append(answer.text)

    async def write(self, number: int) -> None:
        """Cancel a charge, each in a transaction of its own, or send a transfer."""
        try:
            if number % 4:
                answer = await self._client.post(f"/charges/{self.charges.pop()}/cancel")
            else:
                answer = await self.transfer(f"transfer-{time.monotonic_ns()}")
            code = answer.json().get("code", "")
        except httpx2.TimeoutException:
            code = "no answer"
        self.codes[code] += 1
        if not code:
            self.succeeded_at = time.monotonic()

    async def transfer(self, key: str) -> httpx2.Response:
        """Send a transfer with this idempotency key."""
        body = {"to": f"@{self._seeded.people[0]}", "amount": 1}
        answer = await self._client.post("/transfers", json=body, headers={"Idempotency-Key": key})
        self.transfers[key] = answer.json().get("code", "")
        return answer

    async def settle(self) -> None:
        """Repeat the transfers whose outcome is unknown."""
        for key, code in list(self.transfers.items()):
            if code == "outcome_unknown":
                assert (await self.transfer(key)).status_code in {200, 201}

    def read_p99_seconds(self) -> float:
        """Return the 99th percentile of the reads so far, and begin anew."""
        seconds, self.read_seconds = self.read_seconds, []
        return statistics.quantiles(seconds, n=100)[98]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Read and write during a block; in the end every request has been answered."""
        stopping = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(_at_rate(READS_PER_SECOND, self.read, stopping))
            group.create_task(_at_rate(WRITES_PER_SECOND, self.write, stopping))
            try:
                yield
            finally:
                stopping.set()


async def _at_rate(
    per_second: float, act: Callable[[int], Coroutine[None, None, None]], stopping: asyncio.Event
) -> None:
    """Act at this rate, however long each act takes, until told to stop."""
    begun = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in count():
            due = begun + number / per_second
            if stopping.is_set():
                return
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            group.create_task(act(number))


@asynccontextmanager
async def backends_sampled(url: str) -> AsyncIterator[list[int]]:
    """Yield a list, and add to it during the block how many backends serve Ousel."""
    counts: list[int] = []

    async def sample() -> None:
        async with RawSql(url) as raw_sql:
            while True:
                counts.append((await raw_sql.run(BACKENDS))[0][0])
                await asyncio.sleep(SAMPLE_SECONDS)

    sampling = asyncio.create_task(sample())
    try:
        yield counts
    finally:
        sampling.cancel()
        await asyncio.wait({sampling})
    assert sampling.cancelled(), sampling


async def observe(postgres: PostgresServer, traffic: Traffic) -> str:
    """Take the followers away under load and give them back; return the figures."""
    async with traffic.running():
        await asyncio.sleep(CALM_SECONDS)
        calm_seconds = traffic.read_p99_seconds()
        assert set(traffic.codes) == {""}
        await postgres.require_followers("nobody")
        await asyncio.sleep(NO_FOLLOWER_SECONDS)
        longest_seconds = max(traffic.read_seconds)
        p99_seconds = traffic.read_p99_seconds()
        codes = traffic.codes.copy()
        await postgres.require_followers("")
        back = time.monotonic()
        await until(lambda: traffic.succeeded_at > back)
        recovery_seconds = traffic.succeeded_at - back

    assert set(codes) <= {"", "database_unavailable", "outcome_unknown", "queue_full"}
    assert codes["database_unavailable"] > 0
    return (
        f"reads p99 {calm_seconds * 1000:.1f} ms before and {p99_seconds * 1000:.1f} ms meanwhile "
        f"(longest {longest_seconds * 1000:.1f} ms), writes {dict(codes)}; "
        f"writing again {recovery_seconds:.2f} s after the follower"
    )


async def test_reads_are_answered_without_a_follower(
    postgres: PostgresServer, seeded: SeededDatabase, figure: Figure
) -> None:
    """Every read is answered; writes are refused, and succeed as soon as a follower is back."""
    with Server(seeded.url, OUSEL_LOG_LEVEL="warning") as server:
        async with server.client(seeded.key) as client, backends_sampled(seeded.url) as backends:
            traffic = Traffic(client, seeded)
            await traffic.create_charges(int((NO_FOLLOWER_SECONDS + 60) * WRITES_PER_SECOND))
            figures = await observe(postgres, traffic)
            await traffic.settle()
        log = server.stop()

    assert not traffic.failed_reads, traffic.failed_reads[:3]
    assert max(backends) <= BACKENDS_MAX
    moved = {each.idempotency_key for each in await seeded.transfers()}
    assert moved == {key for key, code in traffic.transfers.items() if not code}
    run_verify(seeded.url)
    assert log.count("writes are suspended") == log.count("writes are resumed") == 1, log
    assert "Traceback" not in log, log
    figure(
        f"postgresql: no follower for {NO_FOLLOWER_SECONDS:.0f} s at {WRITES_PER_SECOND:.0f} "
        f"writes/s: {max(backends)} backends at most, {figures}"
    )
