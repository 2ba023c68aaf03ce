"""A simulation of hot accounts: how many transfers a crowd of callers makes per second.

It follows `ousel.ledger.queue`. Each process writes one batch after the other. A batch locks its
accounts until its commit, and leaves out the transfers whose accounts others have locked. These
transfers wait for the locked account, first come, first served. Each process waits for at most two
accounts at a time. Batches share the cores, and then wait for the network and the disk.
"""

import heapq
import random
from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from itertools import accumulate, count
from typing import Final

import msgspec

from ousel.ledger.queue import FIRST_WAITS_MAX
from ousel.ledger.writer import BATCH_POSTINGS_MAX, CONTENTION_SECONDS, UNHALVED_POSTINGS_MAX

WARM_SHARE: Final = 0.2  # of the simulated time is not counted

Transfer = tuple[int, int, int]  # the caller, the sender's account, the recipient's account


class Crowd(msgspec.Struct, frozen=True, kw_only=True):
    """Callers who each send one transfer after the other, from their account to any other.

    An exponent of 0 makes all accounts alike. With an exponent s, the k-th account takes part
    k ** -s times as often as the first one.
    """

    callers: int
    processes: int
    senders: int = 256
    recipients: int = 10_000
    sender_exponent: float = 0.0
    recipient_exponent: float = 0.0


class BatchTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long a batch of transfers takes: CPU time, and time during which it only waits."""

    cpu_seconds: float
    cpu_seconds_per_transfer: float
    wait_seconds: float
    turnaround_seconds: float  # from an answer to the next transfer of the same caller
    cores: float

    def cpu(self, transfers: int) -> float:
        """Return the CPU time of a batch."""
        return self.cpu_seconds + self.cpu_seconds_per_transfer * transfers

    def seconds(self, transfers: int) -> float:
        """Return how long a batch takes if nothing else runs."""
        return self.cpu(transfers) + self.wait_seconds


def zipf_weights(size: int, exponent: float) -> list[float]:
    """Return how often each account takes part, relative to the first one."""
    return [rank**-exponent for rank in range(1, size + 1)]


def hottest_share(size: int, exponent: float) -> float:
    """Return the share of the first account in all transfers."""
    return 1 / sum(zipf_weights(size, exponent))


def simulate(crowd: Crowd, times: BatchTimes, seconds: float = 10.0, seed: int = 1) -> float:
    """Return how many transfers per second the crowd makes."""
    return _Simulation(crowd, times, random.Random(seed)).run(seconds)  # noqa: S311 - no secret


class _Batch(msgspec.Struct, eq=False):
    """Transfers in one transaction, and the accounts that it has locked."""

    writer: "_Writer"
    transfers: list[Transfer]
    locked: set[int] = msgspec.field(default_factory=set)
    cpu_seconds_left: float = 0.0


class _Writer(msgspec.Struct, eq=False):
    """Writes transfers of one process, one batch after the other."""

    process: "_Process"
    awaited: int | None = None  # the account that it waits for
    queue: deque[Transfer] = msgspec.field(default_factory=deque)
    last_size: int = 0
    is_running: bool = False

    def next_batch(self) -> _Batch:
        """Take all transfers if they are few, and half of them, up to a limit, if they are many."""
        half = (len(self.queue) + self.last_size + 1) // 2
        wanted = min(max(half, UNHALVED_POSTINGS_MAX), BATCH_POSTINGS_MAX)
        size = self.last_size = min(wanted, len(self.queue))
        self.is_running = bool(size)
        return _Batch(self, [self.queue.popleft() for _ in range(size)])


class _Process(msgspec.Struct, eq=False):
    """One Ousel process: its writers for locked accounts, and how many more of them may wait."""

    waits_left: int = FIRST_WAITS_MAX
    blocked_writers: dict[int, _Writer] = msgspec.field(default_factory=dict)


class _Simulation:
    def __init__(self, crowd: Crowd, times: BatchTimes, chance: random.Random) -> None:
        self._times = times
        self._chance = chance
        self._recipients = list(
            accumulate(zipf_weights(crowd.recipients, crowd.recipient_exponent))
        )
        weights = zipf_weights(crowd.senders, crowd.sender_exponent)
        # Senders have negative numbers, so that none of them is a recipient.
        if crowd.sender_exponent:
            chosen = chance.choices(range(crowd.senders), weights, k=crowd.callers)
        else:
            chosen = [caller % crowd.senders for caller in range(crowd.callers)]
        self._senders = [-1 - sender for sender in chosen]
        self._writers = [_Writer(_Process()) for _ in range(crowd.processes)]
        self._holders: dict[int, _Batch] = {}
        self._waiting: dict[int, deque[_Batch]] = defaultdict(deque)
        self._working: list[_Batch] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._now = 0.0
        self._transfers_made = 0

    def run(self, seconds: float) -> float:
        for caller in range(len(self._senders)):
            self._send(caller)
        self._run_until(seconds * WARM_SHARE)
        before = self._transfers_made
        self._run_until(seconds)
        return (self._transfers_made - before) / (seconds * (1 - WARM_SHARE))

    def _run_until(self, end: float) -> None:
        """Let time pass; the batches that work share the cores."""
        while self._now < end:
            speed = min(1.0, self._times.cores / max(1, len(self._working)))
            first = min(self._working, key=lambda each: each.cpu_seconds_left, default=None)
            worked = self._now + first.cpu_seconds_left / speed if first else float("inf")
            due = self._events[0][0] if self._events else float("inf")
            moment = min(worked, due, end)
            for batch in self._working:
                batch.cpu_seconds_left -= (moment - self._now) * speed
            self._now = moment
            if first is not None and moment == worked:
                self._working.remove(first)
                wait_seconds = self._times.wait_seconds if first.transfers else 0.0
                self._later(wait_seconds, partial(self._commit, first))
            elif moment == due:
                heapq.heappop(self._events)[2]()

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self._now + seconds, next(self._numbers), action))

    def _send(self, caller: int) -> None:
        """Let a caller send its next transfer, to the process to which it is connected."""
        [recipient] = self._chance.choices(
            range(len(self._recipients)), cum_weights=self._recipients
        )
        transfer = (caller, self._senders[caller], recipient)
        writer = self._writers[caller % len(self._writers)]
        for account in transfer[1:]:
            writer = writer.process.blocked_writers.get(account, writer)
        self._enqueue(writer, transfer)

    def _enqueue(self, writer: _Writer, transfer: Transfer) -> None:
        writer.queue.append(transfer)
        if not writer.is_running:
            self._start(writer)

    def _start(self, writer: _Writer) -> None:
        """Start the next batch of a writer that runs none, if there is something to write."""
        if writer.awaited is None:
            batch = writer.next_batch()
            if batch.transfers:
                self._lock(batch)
        elif writer.queue and writer.process.waits_left:
            writer.process.waits_left -= 1
            batch = writer.next_batch()
            if writer.awaited in self._holders:
                self._waiting[writer.awaited].append(batch)
            else:
                self._lock(batch)

    def _lock(self, batch: _Batch) -> None:
        """Lock the accounts of each transfer; set aside those that need a locked account."""
        members, batch.transfers = batch.transfers, []
        for transfer in members:
            missing = [each for each in transfer[1:] if self._holders.get(each, batch) is not batch]
            if missing:
                self._set_aside(batch.writer.process, transfer, missing[0])
                continue
            batch.transfers.append(transfer)
            for account in transfer[1:]:
                batch.locked.add(account)
                self._holders[account] = batch
        batch.cpu_seconds_left = self._times.cpu(len(batch.transfers))
        self._working.append(batch)

    def _set_aside(self, process: _Process, transfer: Transfer, account: int) -> None:
        writer = process.blocked_writers.get(account)
        if writer is None:
            writer = process.blocked_writers[account] = _Writer(process, account)
        self._enqueue(writer, transfer)

    def _commit(self, batch: _Batch) -> None:
        """Unlock the accounts, let the next batches run, and let the callers send again."""
        self._transfers_made += len(batch.transfers)
        for account in batch.locked:
            del self._holders[account]
        awaited = [] if batch.writer.awaited is None else [batch.writer.awaited]
        for account in sorted(batch.locked.union(awaited)):
            if self._waiting.get(account) and account not in self._holders:
                self._lock(self._waiting[account].popleft())
        for caller, *_ in batch.transfers:
            self._later(self._times.turnaround_seconds, partial(self._send, caller))
        writer = batch.writer
        writer.is_running = False
        if writer.awaited is not None:
            writer.process.waits_left += 1
            self._later(CONTENTION_SECONDS, partial(self._end_if_idle, writer))
        for each in (writer, *writer.process.blocked_writers.values()):
            if not each.is_running:
                self._start(each)

    def _end_if_idle(self, writer: _Writer) -> None:
        blocked, account = writer.process.blocked_writers, writer.awaited
        is_idle = not (writer.is_running or writer.queue)
        if account is not None and blocked.get(account) is writer and is_idle:
            del blocked[account]
