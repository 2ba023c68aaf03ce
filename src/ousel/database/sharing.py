"""Sharing: whoever asks while a transaction is under way shares the next one.

Where the database tells that nothing was committed since, the last read is good enough.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from itertools import chain
from typing import Final, Generic, TypeVar

from typing_extensions import override

from ousel.database.port import Database, Transaction, Work
from ousel.kernel.errors import Refusal

SHARED_MAX: Final = 1_000
KEPT_KEYS_MAX: Final = 10_000

Key = TypeVar("Key")
Value = TypeVar("Value")
Answers = list[asyncio.Future[Value]]
Waiting = dict[Key, Answers[Value]]
Together = Callable[[Transaction, list[Key]], Awaitable[dict[Key, Value]]]


class _Shared(ABC, Generic[Key, Value]):
    """Gathers what is asked for, and asks for all of it at once."""

    def __init__(self) -> None:
        self._waiting: Waiting[Key, Value] = {}
        self._under_way: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """How many wait for the next transaction."""
        return len(self._waiting)

    @abstractmethod
    async def _values(self, keys: list[Key]) -> dict[Key, Value]:
        """Return a value for each of the keys, from one transaction."""

    async def _value(self, key: Key) -> Value:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Value] = loop.create_future()
        self._waiting.setdefault(key, []).append(answer)
        if self._under_way is None:
            self._under_way = loop.create_task(self._answer_until_empty())
        return await answer

    async def _answer_until_empty(self) -> None:
        try:
            while self._waiting:
                taken = list(self._waiting)[:SHARED_MAX]
                await self._answer({key: self._waiting.pop(key) for key in taken})
        finally:
            self._under_way = None

    async def _answer(self, waiting: "Waiting[Key, Value]") -> None:
        """Answer those who wait; a key at fault fails alone."""
        try:
            found = await self._values(list(waiting))
            values = [found[key] for key in waiting]
        except Exception as error:  # noqa: BLE001 - each caller gets it, and answers for itself
            if len(waiting) > 1 and not isinstance(error, Refusal):
                await self._answer_apart(waiting)
                return
            for answer in chain.from_iterable(waiting.values()):
                if not answer.done():
                    answer.set_exception(error)
        else:
            for value, answers in zip(values, waiting.values(), strict=True):
                _give(value, answers)

    async def _answer_apart(self, waiting: "Waiting[Key, Value]") -> None:
        """Halve what failed together until the key at fault stands alone."""
        keys = list(waiting)
        middle = len(keys) // 2
        await self._answer({key: waiting[key] for key in keys[:middle]})
        await self._answer({key: waiting[key] for key in keys[middle:]})


class SharedReads(_Shared[Key, Value]):
    """Looks many keys up with one statement; an answer is never older than its question."""

    def __init__(self, database: Database, load: "Together[Key, Value]") -> None:
        """Look keys up with `load`, which returns a value for each of them."""
        super().__init__()
        self._database = database
        self._load = load
        self._kept: dict[Key, Value] = {}
        self._kept_version: int | None = None

    async def get(self, key: Key) -> Value:
        """Return the key's value as of now or a moment later."""
        version = self._database.version()
        if version is not None and version == self._kept_version and key in self._kept:
            return self._kept[key]
        return await self._value(key)

    @override
    async def _values(self, keys: list[Key]) -> dict[Key, Value]:
        version = self._database.version()
        found = await self._database.read(lambda transaction: self._load(transaction, keys))
        self._keep(version, found)
        return found

    def _keep(self, version: int | None, found: dict[Key, Value]) -> None:
        """Keep what was read not earlier than this version was asked for."""
        if version is None:
            return
        if version != self._kept_version or len(self._kept) > KEPT_KEYS_MAX:
            self._kept, self._kept_version = {}, version
        self._kept |= found


class SharedWrites(_Shared[Key, Value]):
    """Writes what many ask for with one commit; each is told once that is on disk."""

    def __init__(
        self,
        commit: Callable[[Work[dict[Key, Value]]], Awaitable[dict[Key, Value]]],
        write: "Together[Key, Value]",
    ) -> None:
        """Commit what `write` does for many at once; it returns what became of each of them."""
        super().__init__()
        self._commit = commit
        self._write = write

    async def put(self, key: Key) -> Value:
        """Return what became of it."""
        return await self._value(key)

    @override
    async def _values(self, keys: list[Key]) -> dict[Key, Value]:
        return await self._commit(lambda transaction: self._write(transaction, keys))


def _give(value: Value, answers: "Answers[Value]") -> None:
    for answer in answers:
        if not answer.done():  # its caller has not given up
            answer.set_result(value)
