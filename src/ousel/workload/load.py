"""The load generator: a number of connections, each with one open request at most, for a while.

It runs as a separate process (`python -m ousel.workload.load`), reads a plan from standard input
and prints a result. Requests are joined from prepared bytes, and only the status and length of an
answer are read, so that the load uses little of the machine that it measures.
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

DRAIN_SECONDS_MAX: Final = 60.0
CONNECT_SECONDS_MAX: Final = 60.0
ORDER_LENGTH: Final = 1 << 16
CATCH_UP_SECONDS_MAX: Final = 0.1  # a turn to send that is later than this is skipped

_HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length: "
_NOT_MODIFIED: Final = b"HTTP/1.1 304 "


class LoadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What to send: each request is its connection's head, a running number, and one of the tails.

    If `requests` is given, these are sent instead, each at most once. The load ends when all
    are sent or its time is over.
    """

    port: int
    connections: int
    warm_seconds: float
    seconds: float
    statuses: list[int]  # the expected ones; any other fails the load
    heads: list[bytes] = []
    tails: list[bytes] = []
    numbers: int = 10**12  # after this many requests the running number starts again
    requests: list[bytes] = []
    rate: float | None = None  # requests per second, at most; None means as many as possible


class LoadResult(msgspec.Struct, frozen=True, kw_only=True):
    """The rate and latencies within the measured window, and the totals of the whole load."""

    rate: float
    p50_seconds: float
    p99_seconds: float
    longest_seconds: float = 0.0
    answers: dict[int, int]  # by status
    client_cpu_seconds: float

    @property
    def total(self) -> int:
        """The number of answers."""
        return sum(self.answers.values())


class LoadFailed(Exception):
    """A connection broke, or an answer had an unexpected status."""


class _SharedState:
    """The state that all connections share: the window, the numbers and the results."""

    def __init__(self, plan: LoadPlan) -> None:
        shuffle = random.Random(plan.port)  # noqa: S311 - the order of recipients is no secret
        self.order = shuffle.choices(plan.tails or [_HEAD_END], k=ORDER_LENGTH)
        self.requests = iter(plan.requests) if plan.requests else None
        self.numbers = plan.numbers
        self._pause = 0.0 if plan.rate is None else 1 / plan.rate
        self._next_turn = 0.0
        self.number = 0
        self.window_start = math.inf
        self.window_end = math.inf
        self.answered_at = 0.0
        # The time of the last answer that counts. If none comes within the window, the first one
        # after the window counts.
        self.counted_at = 0.0
        self.latencies: list[float] = []
        self.answers: Counter[bytes] = Counter()
        self.broken = 0
        self.busy = 0
        self.idle = asyncio.Event()

    def start(self, plan: LoadPlan) -> None:
        """Start the warm-up; the window follows it."""
        self._plan = plan
        self._warm_at = time.perf_counter() + plan.warm_seconds

    def start_window_when_warm(self, now: float) -> None:
        """Start the window after the warm-up, once there are as many answers as connections."""
        if now >= self._warm_at and self.answers.total() >= self._plan.connections:
            self.window_start = now
            self.window_end = now + self._plan.seconds

    def seconds_until_turn(self, now: float) -> float:
        """Return how long a connection must wait so that the rate is not exceeded."""
        self._next_turn = max(self._next_turn, now - CATCH_UP_SECONDS_MAX) + self._pause
        return self._next_turn - now if self._pause else 0.0

    def next_request(self, head: bytes) -> bytes | None:
        """Return the next request for a connection, or None if there is none."""
        if self.requests is not None:
            return next(self.requests, None)
        number = self.number = self.number + 1
        number %= self.numbers
        return b"%b%012d%b" % (head, number, self.order[number % ORDER_LENGTH])


class _Connection(asyncio.Protocol):
    """One connection, which sends a request as soon as the previous one is answered."""

    def __init__(self, load: _SharedState, head: bytes) -> None:
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
        self._send_in_turn(time.perf_counter())

    @override
    def data_received(self, data: bytes) -> None:
        if self._received:
            data = self._received + data
        if not _is_complete(data):
            self._received = data
            return
        self._received = b""
        load = self._load
        now = load.answered_at = time.perf_counter()
        load.answers[data[9:12]] += 1
        if now >= load.window_end and load.latencies:
            self._finish()
            return
        if now >= load.window_start:
            load.latencies.append(now - self._sent_at)
            load.counted_at = now
        else:
            load.start_window_when_warm(now)
        self._send_in_turn(now)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._sent_at:
            self._load.broken += 1
            self._finish()

    def _send_in_turn(self, now: float) -> None:
        seconds = self._load.seconds_until_turn(now)
        if seconds > 0:
            asyncio.get_running_loop().call_later(seconds, self._send_now)
        else:
            self._send(now)

    def _send_now(self) -> None:
        self._send(time.perf_counter())

    def _send(self, now: float) -> None:
        request = self._load.next_request(self._head)
        if request is None:
            self._finish()
            return
        self._sent_at = now
        self._transport.write(request)

    def _finish(self) -> None:
        self._sent_at = 0.0
        self._load.busy -= 1
        if self._load.busy == 0:
            self._load.idle.set()


def _is_complete(data: bytes) -> bool:
    """Return whether the bytes are a complete answer."""
    head_end = data.find(_HEAD_END)
    if head_end < 0:
        return False
    length_at = data.find(_LENGTH, 0, head_end)
    if length_at < 0:
        return data.startswith(_NOT_MODIFIED)
    start = length_at + len(_LENGTH)
    body_length = int(data[start : data.index(b"\r\n", start)])
    return len(data) >= head_end + len(_HEAD_END) + body_length


async def run_load(plan: LoadPlan) -> LoadResult:
    """Connect, send requests until the time is over, wait for the last answers."""
    loop = asyncio.get_running_loop()
    load = _SharedState(plan)
    connections: list[_Connection] = []
    async with asyncio.timeout(CONNECT_SECONDS_MAX):
        for index in range(plan.connections):
            head = plan.heads[index % len(plan.heads)] if plan.heads else b""
            connection = _Connection(load, head)
            await loop.create_connection(lambda each=connection: each, "127.0.0.1", plan.port)  # type: ignore[misc]
            connections.append(connection)
    cpu_before = time.process_time()
    load.start(plan)
    for connection in connections:
        connection.start()
    async with asyncio.timeout(plan.warm_seconds + plan.seconds + DRAIN_SECONDS_MAX):
        await load.idle.wait()
    latencies = sorted(load.latencies)
    ended_at = max(load.counted_at, min(load.window_end, load.answered_at))
    answers = {int(status): count for status, count in load.answers.items()}
    if not latencies or load.broken or not answers.keys() <= set(plan.statuses):
        raise LoadFailed(f"answers by status: {answers}; connections broken: {load.broken}")
    return LoadResult(
        rate=len(latencies) / (ended_at - load.window_start),
        p50_seconds=latencies[len(latencies) // 2],
        p99_seconds=latencies[len(latencies) * 99 // 100],
        longest_seconds=latencies[-1],
        answers=answers,
        client_cpu_seconds=time.process_time() - cpu_before,
    )


def main() -> None:
    """Read a plan, run the load, and print the result."""
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=LoadPlan)
    gc.disable()
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(run_load(plan))))


if __name__ == "__main__":
    main()
