"""A load of transfers to several servers that repeats unanswered requests and counts answers."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count, pairwise

import httpx2

from tests.support.server import Server

CLIENTS = 8
PAUSE_SECONDS = 0.02
RETRY_SECONDS = 0.25
ACKNOWLEDGED_SECONDS_MAX = 90.0
REPLAYED = 0.1  # so many of the answered transfers are sent once more, to the other server


class Load:
    """Sends transfers to several servers at once, until told to stop."""

    def __init__(self, servers: Sequence[Server], key: str, recipient: str, seed: int) -> None:
        self._servers = servers
        self._recipient = recipient
        self._clients = [server.client(key) for server in servers]
        self._seed = seed
        self._stopping = False
        self._news = asyncio.Event()
        self.acknowledged: dict[str, str] = {}  # transfer ids by idempotency key
        self.amounts: dict[str, int] = {}  # in cents, by idempotency key
        self.moments: list[float] = []  # when a transfer was acknowledged
        self.successes = 0  # answers that say that a transfer is done, replayed ones included
        self.refusals: Counter[str] = Counter()
        self.slowest_seconds = 0.0  # from a request to whatever answer it got
        self.faults: list[str] = []  # answers that no server may give

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send during a block; in the end every transfer is acknowledged."""
        async with asyncio.TaskGroup() as sending:
            for number in range(CLIENTS):
                sending.create_task(self._send_on(number))
            yield
            self._stopping = True
        for client in self._clients:
            await client.aclose()

    async def further(self, transfers: int) -> None:
        """Return when so many more transfers have been acknowledged."""
        wanted = len(self.moments) + transfers
        async with asyncio.timeout(ACKNOWLEDGED_SECONDS_MAX):
            while len(self.moments) < wanted:
                self._news.clear()
                await self._news.wait()

    def longest_gap_seconds(self, since: float) -> float:
        """Return the longest time without an acknowledged transfer since that moment."""
        later = [since, *(moment for moment in self.moments if moment > since)]
        return max((after - before for before, after in pairwise(later)), default=0.0)

    async def _send_on(self, number: int) -> None:
        dice = random.Random(f"{self._seed}/{number}")
        for turn in count():
            if self._stopping:
                return
            key = f"load-{number}-{turn}"
            self.amounts[key] = dice.randint(1, 500)
            transfer_id = await self._acknowledgement(key, first=number + turn)
            self.acknowledged[key] = transfer_id
            self.moments.append(time.monotonic())
            self._news.set()
            if dice.random() < REPLAYED:
                again = await self._acknowledgement(key, first=number + turn + 1)
                if again != transfer_id:
                    self.faults.append(f"{key}: first {transfer_id}, replayed {again}")
            await asyncio.sleep(PAUSE_SECONDS)

    async def _acknowledgement(self, key: str, first: int) -> str:
        """Send one transfer to one server after the other until one acknowledges it."""
        for attempt in count(first):
            answer = await self._sent(self._clients[attempt % len(self._clients)], key)
            if answer is not None:
                return answer
            await asyncio.sleep(RETRY_SECONDS)
        raise AssertionError("counting never ends")

    async def _sent(self, client: httpx2.AsyncClient, key: str) -> str | None:
        cents = self.amounts[key]
        body = {"to": self._recipient, "amount": cents / 100}
        started = time.monotonic()
        try:
            answer = await client.post("/transfers", json=body, headers={"Idempotency-Key": key})
        except httpx2.TransportError as error:
            self.refusals[type(error).__name__] += 1
            return None
        finally:
            self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - started)
        if answer.status_code in {httpx2.codes.OK, httpx2.codes.CREATED}:
            self.successes += 1
            return str(answer.json()["id"])
        self.refusals[str(answer.json()["code"])] += 1
        if answer.status_code != httpx2.codes.SERVICE_UNAVAILABLE:
            self.faults.append(f"{key}: {answer.status_code} {answer.text}")
        elif "retry-after" not in answer.headers:
            self.faults.append(f"{key}: 503 without Retry-After")
        return None
