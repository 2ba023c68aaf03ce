"""Batching: one transaction does what many callers ask for at the same time.

There is no delay: the first item runs at once, and the next batch is made of the items that
arrived meanwhile. If the deadline of an item passes before the commit is sent, or its caller gives
up, the others are run without it. If a batch is refused for another reason, as when the database is
unavailable, all its callers get the refusal. After any other error, the batch is halved until the
item at fault fails alone.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

import msgspec
from typing_extensions import override

from ousel.database.port import Database, Transaction
from ousel.database.retries import RowsLocked
from ousel.kernel.deadlines import NO_DEADLINE, check_deadline, current_deadline, deadline_exceeded
from ousel.kernel.errors import DeadlineExceeded, Refusal
from ousel.kernel.futures import fail_gradually

BATCH_ITEMS_MAX: Final = 1_000
CACHED_KEYS_MAX: Final = 10_000

Item = TypeVar("Item")
Result = TypeVar("Result")
Key = TypeVar("Key")
Value = TypeVar("Value")
Waiting = TypeVar("Waiting")


class WaitingItem(msgspec.Struct, Generic[Item, Result], frozen=True):
    """An item, the future by which its caller gets the result, and the deadline of its request."""

    item: Item
    answer: "asyncio.Future[Result]"
    deadline: float = NO_DEADLINE

    def is_wanted(self, now: float) -> bool:
        """Return whether the caller still waits and the deadline has not passed."""
        return now < self.deadline and not self.answer.done()


class Batcher(ABC, Generic[Item, Result]):
    """Runs the waiting items in batches, one batch after the other."""

    def __init__(self) -> None:
        """Begin with an empty queue."""
        self._queue: deque[WaitingItem[Item, Result]] = deque()
        self._running: asyncio.Task[None] | None = None
        self._overdue_timer: asyncio.TimerHandle | None = None

    @property
    def waiting_count(self) -> int:
        """How many items wait for the next batch."""
        return len(self._queue)

    @property
    def is_running(self) -> bool:
        """Whether a batch is being run, or will be."""
        return self._running is not None

    async def close(self) -> None:
        """Run the items that still wait."""
        if self._running is not None:
            await self._running

    @abstractmethod
    async def _run_batch(self, batch: list[WaitingItem[Item, Result]]) -> Sequence[Result]:
        """Return the result of each item, all from one transaction."""

    def _enqueue(self, item: Item, deadline: float = NO_DEADLINE) -> "asyncio.Future[Result]":
        waiting: WaitingItem[Item, Result] = WaitingItem(
            item, asyncio.get_running_loop().create_future(), deadline
        )
        self._add(waiting)
        return waiting.answer

    def _add(self, waiting: WaitingItem[Item, Result]) -> None:
        self._queue.append(waiting)
        if self._running is None:
            loop = asyncio.get_running_loop()
            self._running = loop.create_task(self._run_until_empty())
        if self._overdue_timer is None and waiting.deadline != NO_DEADLINE:
            self._set_overdue_timer()

    async def _run_until_empty(self) -> None:
        """Run batch after batch, and repeat the parts of a batch that failed."""
        parts: list[list[WaitingItem[Item, Result]]] = []
        try:
            while batch := parts.pop() if parts else self._next_batch(BATCH_ITEMS_MAX):
                try:
                    results = await self._run_batch(batch)
                except Exception as error:  # noqa: BLE001 - the callers get it
                    parts += filter(None, self._parts_to_repeat(batch, error))
                else:
                    self._answer(batch, results)
        finally:
            self._running = None

    def _parts_to_repeat(
        self, batch: list[WaitingItem[Item, Result]], error: Exception
    ) -> Sequence[list[WaitingItem[Item, Result]]]:
        """Return the parts of a failed batch to run again, in reverse: the last one is run first.

        If the deadline of an item has passed, or its caller has given up, the others are run again.
        Any other refusal is the result of all items. After any other error, the batch is halved
        until the item at fault fails alone.
        """
        if isinstance(error, DeadlineExceeded):
            wanted = refuse_overdue_items(batch)
            if len(wanted) < len(batch):
                return [wanted]
        elif len(batch) > 1 and not isinstance(error, Refusal):
            return _halves(batch)
        fail_gradually([waiting.answer for waiting in batch], error)
        return []

    def _next_batch(self, items_max: int) -> list[WaitingItem[Item, Result]]:
        """Take the items that have waited longest, without those whose callers have given up.

        Refuse those that are overdue.
        """
        batch: list[WaitingItem[Item, Result]] = []
        while self._queue and not batch:
            count = min(len(self._queue), items_max)
            batch = refuse_overdue_items([self._queue.popleft() for _ in range(count)])
        return batch

    def _set_overdue_timer(self) -> None:
        """Set the timer that refuses waiting items as soon as their deadlines pass.

        Most deadlines pass in the order of the queue, so one timer for the first item is enough. An
        overdue item behind it is refused when its turn comes.
        """
        if self._queue and self._queue[0].deadline != NO_DEADLINE:
            self._overdue_timer = asyncio.get_running_loop().call_at(
                self._queue[0].deadline, self._refuse_overdue
            )
        else:
            self._overdue_timer = None

    def _refuse_overdue(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._queue and not self._queue[0].is_wanted(now):
            refuse_overdue_items([self._queue.popleft()])
        self._set_overdue_timer()

    def _answer(
        self, batch: Sequence[WaitingItem[Item, Result]], results: Sequence[Result]
    ) -> None:
        """Give each caller its result, unless the caller has given up."""
        for waiting, result in zip(batch, results, strict=True):
            if not waiting.answer.done():
                waiting.answer.set_result(result)


class SharedReads(Batcher[Key, Value]):
    """Looks up many keys with one statement; a value is never older than the call that asks for it.

    A value is used again as long as the database knows that nothing has been committed since.
    """

    def __init__(
        self,
        database: Database,
        load: Callable[[Transaction, list[Key]], Awaitable[dict[Key, Value]]],
        is_worth_caching: Callable[[Value], bool] = lambda _: True,
    ) -> None:
        """Look up keys with `load`, which returns a value for each of them.

        Only values that `is_worth_caching` accepts are cached.
        """
        super().__init__()
        self._database = database
        self._load = load
        self._is_worth_caching = is_worth_caching
        self._cached: dict[Key, Value] = {}
        self._cached_version: int | None = None

    async def get(self, key: Key) -> Value:
        """Return the key's value as of this call or later."""
        version = self._database.version()
        if version is not None and version == self._cached_version and key in self._cached:
            return self._cached[key]
        return await self._enqueue(key)

    @override
    async def _run_batch(self, batch: list[WaitingItem[Key, Value]]) -> list[Value]:
        keys = list(dict.fromkeys(waiting.item for waiting in batch))
        version = self._database.version()
        values = await self._database.read(lambda transaction: self._load(transaction, keys))
        self._cache(version, values)
        return [values[waiting.item] for waiting in batch]

    def _cache(self, version: int | None, values: dict[Key, Value]) -> None:
        """Cache the values, which were read when the database had this version or a later one."""
        if version is None:
            return
        if version != self._cached_version or len(self._cached) > CACHED_KEYS_MAX:
            self._cached, self._cached_version = {}, version
        self._cached |= {
            key: value for key, value in values.items() if self._is_worth_caching(value)
        }


class SharedWrites(Batcher[Item, Result]):
    """Writes the items of many callers with one commit, and answers the callers after it."""

    def __init__(
        self,
        database: Database,
        write: Callable[[Transaction, list[Item]], Awaitable[Sequence[Result]]],
    ) -> None:
        """Commit what `write` does.

        If the outcome of a commit is unknown, `write` runs again and must find what it has written.
        """
        super().__init__()
        self._database = database
        self._write = write

    async def put(self, item: Item) -> Result:
        """Return the item's result once it is on disk."""
        return await self._enqueue(item, current_deadline())

    @override
    async def _run_batch(self, batch: list[WaitingItem[Item, Result]]) -> Sequence[Result]:
        may_be_written = False

        async def write(transaction: Transaction) -> Sequence[Result]:
            nonlocal may_be_written
            may_be_written = transaction.follows_unknown_commit
            if not may_be_written:  # some may have given up while the transaction had to wait
                batch[:] = refuse_overdue_items(batch)
                if not batch:
                    raise deadline_exceeded()
            return await self._write(transaction, [waiting.item for waiting in batch])

        def check_callers() -> None:
            """Refuse to commit for callers who have given up; the others are written again."""
            check_deadline(min(waiting.deadline for waiting in batch))
            if not may_be_written and any(waiting.answer.done() for waiting in batch):
                raise deadline_exceeded()

        return await self._database.write(
            write,
            resolves_unknown_commit=True,
            before_commit=check_callers,
            repeats_locked=False,
        )

    @override
    def _parts_to_repeat(
        self, batch: list[WaitingItem[Item, Result]], error: Exception
    ) -> Sequence[list[WaitingItem[Item, Result]]]:
        """If a row is locked, halve the batch until the item that needs it is refused alone.

        If callers have given up, halve the rest: a smaller batch takes less time, in which fewer
        callers give up.
        """
        if isinstance(error, RowsLocked) and len(batch) > 1:
            return _halves(batch)
        parts = super()._parts_to_repeat(batch, error)
        return _halves(parts[0]) if len(parts) == 1 else parts


def _halves(batch: list[Waiting]) -> list[list[Waiting]]:
    """Return the two halves in reverse: the last one is run first."""
    middle = len(batch) // 2
    return [batch[middle:], batch[:middle]]


def refuse_overdue_items(
    batch: Sequence[WaitingItem[Item, Result]],
) -> list[WaitingItem[Item, Result]]:
    """Refuse the items whose deadlines have passed; return the others that are still waited for."""
    now = asyncio.get_running_loop().time()
    wanted: list[WaitingItem[Item, Result]] = []
    for waiting in batch:
        if waiting.answer.done():
            continue
        if waiting.deadline <= now:
            waiting.answer.set_exception(deadline_exceeded())
        else:
            wanted.append(waiting)
    return wanted
