"""The load: so many connections, each with one request in flight, for so many seconds.

It runs as a process of its own (`python -m ousel.workload.load`), takes a plan on standard input
and prints a tally. Requests are put together from ready bytes, and an answer is read no further
than its status and its length, so that the load takes little of the machine that it measures.
"""

import asyncio
import gc
import math
import random
import sys
import time
from collections import Counter
from typing import Final, cast

import msgspec
import uvloop
from typing_extensions import override

DRAIN_SECONDS_MAX: Final = 10.0
CONNECT_SECONDS_MAX: Final = 10.0
ORDER_LENGTH: Final = 1 << 16

_HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length: "
_NOT_MODIFIED: Final = b"HTTP/1.1 304 "


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to send: a head for each connection in turn, a number, and one of many tails.

    Where requests are given instead, each of them is sent once, and then the load ends.
    """

    port: int
    connections: int
    warm_seconds: float
    seconds: float
    statuses: list[int]  # of answers that are as they should be
    heads: list[bytes] = []
    tails: list[bytes] = []
    numbers: int = 10**12  # so many of them, then the first ones again
    requests: list[bytes] = []


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """What came back: the rate and latencies within the window, and totals over everything."""

    rate: float
    p50_seconds: float
    p99_seconds: float
    answers: dict[int, int]  # by status
    client_cpu_seconds: float

    @property
    def total(self) -> int:
        """How many requests were answered."""
        return sum(self.answers.values())


class Failure(Exception):
    """The load could not be put on."""


class _Load:
    """What all connections share: the clock, the numbers and the tally."""

    def __init__(self, plan: Plan) -> None:
        shuffle = random.Random(plan.port)  # noqa: S311 - which recipient is next is no secret
        self.order = shuffle.choices(plan.tails or [_HEAD_END], k=ORDER_LENGTH)
        self.requests = iter(plan.requests) if plan.requests else None
        self.numbers = plan.numbers
        self.number = 0
        self.window_start = math.inf
        self.window_end = math.inf
        self.answered_at = 0.0
        self.latencies: list[float] = []
        self.answers: Counter[bytes] = Counter()
        self.broken = 0
        self.busy = 0
        self.idle = asyncio.Event()

    def begin(self, plan: Plan) -> None:
        """Let requests flow; the window opens when all is warm."""
        self._plan = plan
        self._warm_at = time.perf_counter() + plan.warm_seconds

    def open_when_warm(self, now: float) -> None:
        """Open the window, unless it is too early or somebody was not answered yet."""
        if now >= self._warm_at and self.answers.total() >= self._plan.connections:
            self.window_start = now
            self.window_end = now + self._plan.seconds

    def request(self, head: bytes) -> bytes | None:
        """Return the next request of a connection, if there is one."""
        if self.requests is not None:
            return next(self.requests, None)
        number = self.number = self.number + 1
        number %= self.numbers
        return b"%b%012d%b" % (head, number, self.order[number % ORDER_LENGTH])


class _Connection(asyncio.Protocol):
    """One connection: sends the next request as soon as the last one is answered."""

    def __init__(self, load: _Load, head: bytes) -> None:
        self._load = load
        self._head = head
        self._received = b""
        self._sent_at = 0.0
        self._transport: asyncio.WriteTransport

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def start(self) -> None:
        """Send the first request."""
        self._load.busy += 1
        self._send(time.perf_counter())

    @override
    def data_received(self, data: bytes) -> None:
        if self._received:
            data = self._received + data
        if not _is_whole(data):
            self._received = data
            return
        self._received = b""
        load = self._load
        now = load.answered_at = time.perf_counter()
        load.answers[data[9:12]] += 1
        if now >= load.window_end:
            self._rest()
            return
        if now >= load.window_start:
            load.latencies.append(now - self._sent_at)
        else:
            load.open_when_warm(now)
        self._send(now)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._sent_at:
            self._load.broken += 1
            self._rest()

    def _send(self, now: float) -> None:
        request = self._load.request(self._head)
        if request is None:
            self._rest()
            return
        self._sent_at = now
        self._transport.write(request)

    def _rest(self) -> None:
        self._sent_at = 0.0
        self._load.busy -= 1
        if self._load.busy == 0:
            self._load.idle.set()


def _is_whole(data: bytes) -> bool:
    """Say whether the bytes hold an answer to its last one."""
    head_end = data.find(_HEAD_END)
    if head_end < 0:
        return False
    length_at = data.find(_LENGTH, 0, head_end)
    if length_at < 0:
        return data.startswith(_NOT_MODIFIED)
    start = length_at + len(_LENGTH)
    body_length = int(data[start : data.index(b"\r\n", start)])
    return len(data) >= head_end + len(_HEAD_END) + body_length


async def run_load(plan: Plan) -> Tally:
    """Connect, send until the time is over, wait for what is still in flight, and tally."""
    loop = asyncio.get_running_loop()
    load = _Load(plan)
    connections: list[_Connection] = []
    async with asyncio.timeout(CONNECT_SECONDS_MAX):
        for index in range(plan.connections):
            head = plan.heads[index % len(plan.heads)] if plan.heads else b""
            connection = _Connection(load, head)
            await loop.create_connection(lambda each=connection: each, "127.0.0.1", plan.port)  # type: ignore[misc]
            connections.append(connection)
    cpu_before = time.process_time()
    load.begin(plan)
    for connection in connections:
        connection.start()
    async with asyncio.timeout(plan.warm_seconds + plan.seconds + DRAIN_SECONDS_MAX):
        await load.idle.wait()
    latencies = sorted(load.latencies)
    answers = {int(status): count for status, count in load.answers.items()}
    if not latencies or load.broken or not answers.keys() <= set(plan.statuses):
        raise Failure(f"answers by status: {answers}; connections broken: {load.broken}")
    return Tally(
        rate=len(latencies) / (min(load.window_end, load.answered_at) - load.window_start),
        p50_seconds=latencies[len(latencies) // 2],
        p99_seconds=latencies[len(latencies) * 99 // 100],
        answers=answers,
        client_cpu_seconds=time.process_time() - cpu_before,
    )


def main() -> None:
    """Read a plan, put the load on, print the tally."""
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=Plan)
    gc.disable()
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(run_load(plan))))


if __name__ == "__main__":
    main()
