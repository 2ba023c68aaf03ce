"""Batching: one transaction does what many callers ask for at the same time.

There is no delay: the first item runs at once, and the next batch is made of the items that
arrived meanwhile. A batch that fails is halved until the item at fault fails alone.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

import msgspec
from typing_extensions import override

from ousel.database.port import Database, Transaction
from ousel.kernel.errors import Refusal

BATCH_ITEMS_MAX: Final = 1_000
CACHED_KEYS_MAX: Final = 10_000

Item = TypeVar("Item")
Result = TypeVar("Result")
Key = TypeVar("Key")
Value = TypeVar("Value")


class Waiting(msgspec.Struct, Generic[Item, Result], frozen=True):
    """An item, and the future by which its caller gets the result."""

    item: Item
    answer: "asyncio.Future[Result]"


class Batcher(ABC, Generic[Item, Result]):
    """Runs the items that wait in batches, one batch after the other."""

    def __init__(self) -> None:
        """Begin with an empty queue."""
        self._queue: deque[Waiting[Item, Result]] = deque()
        self._running: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """How many items wait for the next batch."""
        return len(self._queue)

    async def close(self) -> None:
        """Run the items that still wait."""
        if self._running is not None:
            await self._running

    @abstractmethod
    async def _run_batch(self, items: list[Item]) -> Sequence[Result]:
        """Return the result of each item, all from one transaction."""

    def _enqueue(self, item: Item) -> "asyncio.Future[Result]":
        loop = asyncio.get_running_loop()
        waiting: Waiting[Item, Result] = Waiting(item, loop.create_future())
        self._queue.append(waiting)
        if self._running is None:
            self._running = loop.create_task(self._run_until_empty())
        return waiting.answer

    async def _run_until_empty(self) -> None:
        """Run batch after batch; halve one that fails until the item at fault fails alone."""
        halves: list[list[Waiting[Item, Result]]] = []
        try:
            while batch := halves.pop() if halves else self._next_batch(BATCH_ITEMS_MAX):
                try:
                    results = await self._run_batch([waiting.item for waiting in batch])
                except Exception as error:  # noqa: BLE001 - the callers get it
                    if len(batch) > 1 and not isinstance(error, Refusal):
                        middle = len(batch) // 2
                        halves += [batch[middle:], batch[:middle]]
                    else:
                        _fail(batch, error)
                else:
                    self._answer(batch, results)
        finally:
            self._running = None

    def _next_batch(self, items_max: int) -> list[Waiting[Item, Result]]:
        """Take the items that have waited longest; skip those whose callers have given up."""
        batch: list[Waiting[Item, Result]] = []
        while self._queue and len(batch) < items_max:
            waiting = self._queue.popleft()
            if not waiting.answer.done():
                batch.append(waiting)
        return batch

    def _answer(self, batch: Sequence[Waiting[Item, Result]], results: Sequence[Result]) -> None:
        """Give each caller its result, unless the caller has given up."""
        for waiting, result in zip(batch, results, strict=True):
            if not waiting.answer.done():
                waiting.answer.set_result(result)


class SharedReads(Batcher[Key, Value]):
    """Looks up many keys with one statement; a value is never older than the call that asks for it.

    If the database knows that nothing was committed since a value was read, it is used again.
    """

    def __init__(
        self,
        database: Database,
        load: Callable[[Transaction, list[Key]], Awaitable[dict[Key, Value]]],
    ) -> None:
        """Look up keys with `load`, which returns a value for each of them."""
        super().__init__()
        self._database = database
        self._load = load
        self._cached: dict[Key, Value] = {}
        self._cached_version: int | None = None

    async def get(self, key: Key) -> Value:
        """Return the key's value as of this call or later."""
        version = self._database.version()
        if version is not None and version == self._cached_version and key in self._cached:
            return self._cached[key]
        return await self._enqueue(key)

    @override
    async def _run_batch(self, items: list[Key]) -> list[Value]:
        keys = list(dict.fromkeys(items))
        version = self._database.version()
        values = await self._database.read(lambda transaction: self._load(transaction, keys))
        self._cache(version, values)
        return [values[key] for key in items]

    def _cache(self, version: int | None, values: dict[Key, Value]) -> None:
        """Cache the values, which were read when the database had this version or a later one."""
        if version is None:
            return
        if version != self._cached_version or len(self._cached) > CACHED_KEYS_MAX:
            self._cached, self._cached_version = {}, version
        self._cached |= values


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
        return await self._enqueue(item)

    @override
    async def _run_batch(self, items: list[Item]) -> Sequence[Result]:
        return await self._database.write(
            lambda transaction: self._write(transaction, items), resolves_unknown_commit=True
        )


def _fail(batch: Sequence[Waiting[Item, Result]], error: Exception) -> None:
    for waiting in batch:
        if not waiting.answer.done():
            waiting.answer.set_exception(error)
