"""A load at a fixed rate: requests are due by the clock, however fast the server is.

It runs as a process of its own (`python -m tests.faults.paced`), takes a plan on standard input
and prints a tally. A request that finds every connection busy waits, and its latency counts from
the moment when it was due.
"""

import asyncio
import gc
import sys
import time
from collections import Counter, deque
from typing import cast

import msgspec
import uvloop
from typing_extensions import override

TICK_SECONDS = 0.001
DRAIN_SECONDS_MAX = 120.0
BUCKETS_PER_SECOND = 10_000  # of the latencies' histogram


class PacedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What to send and how often; a request is the head, a number and one of the tails."""

    port: int
    connections: int
    rate: float
    seconds: float
    head: bytes
    tails: list[bytes]
    status: int = 201  # of the answers that count as acknowledged
    slow_seconds: float = DRAIN_SECONDS_MAX  # answers that take longer are listed in the tally


class PacedTally(msgspec.Struct, frozen=True, kw_only=True):
    """The results; latencies count from the time at which a request was due."""

    acknowledged: int
    failed: int
    p50_seconds: float
    p99_seconds: float
    longest_seconds: float
    slow: list[tuple[float, float]]  # when they were due and answered, by `time.perf_counter`


class _Pace:
    """The due requests, the idle connections and the results."""

    def __init__(self, plan: PacedPlan) -> None:
        self.plan = plan
        self.resting: deque[_Connection] = deque()
        self.due: deque[float] = deque()
        self.total = max(int(plan.rate * plan.seconds), 1)  # also if the machine is very busy
        self.planned = 0
        self.sent = 0
        self.acknowledged = 0
        self.failed = 0
        self.buckets: Counter[int] = Counter()
        self.slow: list[tuple[float, float]] = []
        self.done = asyncio.Event()

    def plan_until(self, begun: float, now: float) -> None:
        due = min(self.total, int((now - begun) * self.plan.rate) + 1)  # the first is due at once
        self.due.extend(begun + number / self.plan.rate for number in range(self.planned, due))
        self.planned = due
        self.send()

    def rest(self, connection: "_Connection") -> None:
        self.resting.append(connection)
        self.send()

    def send(self) -> None:
        while self.due and self.resting:
            self.sent += 1
            tail = self.plan.tails[self.sent % len(self.plan.tails)]
            request = b"%b%012d%b" % (self.plan.head, self.sent, tail)
            self.resting.popleft().send(request, self.due.popleft())

    def answered(self, data: bytes, due_at: float) -> None:
        if data.startswith(b"HTTP/1.1 %d " % self.plan.status):
            self.acknowledged += 1
        else:
            self.failed += 1
        answered_at = time.perf_counter()
        self.buckets[int((answered_at - due_at) * BUCKETS_PER_SECOND)] += 1
        if answered_at - due_at > self.plan.slow_seconds:
            self.slow.append((due_at, answered_at))
        if self.acknowledged + self.failed == self.total:
            self.done.set()

    def quantile(self, share: float) -> float:
        left = sum(self.buckets.values()) * share
        for bucket in sorted(self.buckets):
            left -= self.buckets[bucket]
            if left <= 0:
                return bucket / BUCKETS_PER_SECOND
        raise AssertionError("nothing was answered")


class _Connection(asyncio.Protocol):
    """One connection with at most one request in flight."""

    def __init__(self, pace: _Pace) -> None:
        self._pace = pace
        self._received = b""
        self._due_at = 0.0
        self._transport: asyncio.WriteTransport

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)
        self._pace.rest(self)

    @override
    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._received.endswith(b"}"):  # every answer is one JSON object
            self._pace.answered(self._received, self._due_at)
            self._received = b""
            self._pace.rest(self)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._pace.failed += 1

    def send(self, request: bytes, due_at: float) -> None:
        """Send a request that was due at this moment."""
        self._due_at = due_at
        self._transport.write(request)

    def close(self) -> None:
        """Close the connection; this does not count as a failure."""
        self._pace.failed -= 1
        self._transport.abort()


async def put_on(plan: PacedPlan) -> PacedTally:
    """Send at the plan's rate for its duration, and wait for the last answers."""
    loop = asyncio.get_running_loop()
    pace = _Pace(plan)
    connections = [
        (await loop.create_connection(lambda: _Connection(pace), "127.0.0.1", plan.port))[1]
        for _ in range(plan.connections)
    ]
    begun = time.perf_counter()
    while pace.planned < pace.total:
        await asyncio.sleep(TICK_SECONDS)
        pace.plan_until(begun, time.perf_counter())
    async with asyncio.timeout(DRAIN_SECONDS_MAX):
        await pace.done.wait()
    for connection in connections:
        connection.close()
    await asyncio.sleep(0)
    return PacedTally(
        acknowledged=pace.acknowledged,
        failed=pace.failed,
        p50_seconds=pace.quantile(0.5),
        p99_seconds=pace.quantile(0.99),
        longest_seconds=max(pace.buckets) / BUCKETS_PER_SECOND,
        slow=pace.slow,
    )


def main() -> None:
    """Read a plan, put the load on, print the tally."""
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=PacedPlan)
    gc.disable()
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(put_on(plan))))


if __name__ == "__main__":
    main()
