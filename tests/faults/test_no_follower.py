"""The followers of PostgreSQL are gone: reads are answered, and writes resume by themselves."""

import asyncio
import sys
import time
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import httpx2
import msgspec
import pytest

from ousel.database.addresses import open_database
from ousel.people.factor_secrets import FactorSecrets
from ousel.people.secret_file import SecretFile
from tests.faults.paced import PacedPlan, PacedTally
from tests.faults.sizes import CALM_SECONDS, NO_FOLLOWER_SECONDS
from tests.faults.stalls import Interval, may_watch, overlaps, stalls_watched
from tests.support.accounts import verify
from tests.support.figures import Figure
from tests.support.postgres_server import PostgresServer
from tests.support.raw_sql import RawSql
from tests.support.secret_files import secret_file_for
from tests.support.seeded import SeededDatabase
from tests.support.server import Server
from tests.support.waiting import until, until_async

pytestmark = pytest.mark.slow

WRITES_PER_SECOND = 20.0
READS_PER_SECOND = 40.0
READERS = 8
SAMPLE_SECONDS = 0.2
BACKENDS_MAX = 10  # as the documentation says
BACKENDS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ousel'"


@pytest.fixture
def database_url(postgres: PostgresServer) -> str:
    """A fresh database on it."""
    return postgres.fresh_url()


class Writes:
    """Writes at a fixed rate, with every answer recorded."""

    def __init__(self, client: httpx2.AsyncClient, seeded: SeededDatabase) -> None:
        self._client = client
        self._seeded = seeded
        self.charges: list[str] = []  # to cancel
        self.codes: Counter[str] = Counter()  # "" for writes that succeeded
        self.transfers: dict[str, str] = {}  # their codes by idempotency key
        self.succeeded_at = 0.0

    async def create_charges(self, number: int) -> None:
        """Create charges that can be canceled later."""
        for _ in range(0, number, 100):
            answers = await asyncio.gather(
                *(self._client.post("/charges", json={"amount": 1}) for _ in range(100))
            )
            self.charges += [answer.json()["id"] for answer in answers]

    async def write(self, number: int) -> None:
        """Cancel a charge in a transaction of its own, if one is left, or send a transfer."""
        try:
            if number % 4 and self.charges:
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

    async def seconds_to_next_success(self) -> float:
        """Wait until a write succeeds; return how long that took."""
        begun = time.monotonic()
        await until(lambda: self.succeeded_at > begun)
        return self.succeeded_at - begun

    async def settle(self) -> None:
        """Repeat the transfers whose outcome is unknown."""
        for key, code in list(self.transfers.items()):
            if code == "outcome_unknown":
                assert (await self.transfer(key)).status_code in {200, 201}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write during a block; in the end every request has been answered."""
        stopping = asyncio.Event()
        writing = asyncio.create_task(self._write_until(stopping))
        try:
            yield
        finally:
            stopping.set()
            await writing

    async def _write_until(self, stopping: asyncio.Event) -> None:
        begun = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in count():
                if stopping.is_set():
                    return
                due = begun + number / WRITES_PER_SECOND
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                group.create_task(self.write(number))


async def read_steadily(
    server: Server,
    seeded: SeededDatabase,
    seconds: float,
    slow_seconds: float = 0.0,
) -> PacedTally:
    """Read the balance at a fixed rate, from a process of its own; return the results."""
    head = f"GET /v1/balance HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {seeded.key}"
    plan = PacedPlan(
        port=server.port,
        connections=READERS,
        rate=READS_PER_SECOND,
        seconds=seconds,
        head=f"{head}\r\nNumber: ".encode(),
        tails=[b"\r\n\r\n"],
        status=200,
        slow_seconds=slow_seconds,
    )
    command = [sys.executable, "-m", "tests.faults.paced"]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    printed, _ = await process.communicate(msgspec.json.encode(plan))
    return msgspec.json.decode(printed, type=PacedTally)


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


def figures_of(tally: PacedTally) -> str:
    """Return how long reads took."""
    return (
        f"p50 {tally.p50_seconds * 1000:.1f} ms, p99 {tally.p99_seconds * 1000:.1f} ms, "
        f"longest {tally.longest_seconds * 1000:.1f} ms"
    )


def slow_figures_of(before: PacedTally, tally: PacedTally, stalls: list[Interval]) -> str:
    """Return how many reads took more than twice the usual p99, also before, and why."""
    slow_before = sum(end - begin > 2 * before.p99_seconds for begin, end in before.slow)
    slow = (
        f"{len(tally.slow)} of {tally.acknowledged} reads took more than twice that p99 "
        f"(before: {slow_before} of {before.acknowledged})"
    )
    if not may_watch():
        return slow
    stalled_seconds = sum(end - begin for begin, end in stalls)
    delayed = sum(overlaps(each, stalls) for each in tally.slow)
    return f"{slow}, {delayed} of them in stalls of the machine ({stalled_seconds:.2f} s in all)"


async def test_a_server_starts_without_a_follower(
    postgres: PostgresServer, seeded: SeededDatabase
) -> None:
    """It answers reads at once, and writes when the follower is back."""
    async with open_database(seeded.url) as database:
        file = SecretFile(secret_file_for(seeded.url), may_create=False)
        await FactorSecrets(database, file).add_key()
    with Server(seeded.url):
        pass  # the first server marks the database as live
    await postgres.require_followers("nobody")
    with Server(seeded.url, OUSEL_LOG_LEVEL="error") as server:
        async with server.client(seeded.key) as client:
            assert (await client.get("/balance")).status_code == 200
            await postgres.require_followers("")
            writes = Writes(client, seeded)

            async def is_sent() -> bool:
                return (await writes.transfer("after-the-start")).status_code in {200, 201}

            await until_async(is_sent)


async def test_reads_are_answered_without_a_follower(
    postgres: PostgresServer, seeded: SeededDatabase, figure: Figure
) -> None:
    """Every read is answered; writes are refused, and succeed as soon as a follower is back."""
    with Server(seeded.url, OUSEL_LOG_LEVEL="warning") as server:
        async with server.client(seeded.key) as client, backends_sampled(seeded.url) as backends:
            writes = Writes(client, seeded)
            await writes.create_charges(int(NO_FOLLOWER_SECONDS * WRITES_PER_SECOND))
            async with writes.running():
                before = await read_steadily(server, seeded, CALM_SECONDS)
                await until(lambda: writes.succeeded_at)
                await postgres.require_followers("nobody")
                async with stalls_watched() as stalls:
                    meanwhile = await read_steadily(
                        server, seeded, NO_FOLLOWER_SECONDS, slow_seconds=2 * before.p99_seconds
                    )
                await until(
                    lambda: {"database_unavailable", "outcome_unknown"} <= set(writes.codes)
                )
                codes = writes.codes.copy()
                await postgres.require_followers("")
                recovery_seconds = await writes.seconds_to_next_success()
            await writes.settle()
        log = server.stop()

    assert before.failed == meanwhile.failed == 0
    assert set(codes) == {"", "database_unavailable", "outcome_unknown"}
    assert max(backends) <= BACKENDS_MAX
    assert log.count("writes are suspended") == log.count("writes are resumed") == 1, log
    assert "Traceback" not in log, log
    moved = {each.idempotency_key for each in await seeded.transfers()}
    assert moved == {key for key, code in writes.transfers.items() if not code}
    async with open_database(seeded.url) as database:
        await verify(database)
    figure(
        f"postgresql: no follower for {NO_FOLLOWER_SECONDS:.0f} s at {WRITES_PER_SECOND:.0f} "
        f"writes/s: reads before {figures_of(before)}; meanwhile {figures_of(meanwhile)}; "
        f"{slow_figures_of(before, meanwhile, stalls)}; "
        f"{max(backends)} backends at most; answers to writes {dict(codes)}; "
        f"writing again {recovery_seconds:.2f} s after the follower"
    )
