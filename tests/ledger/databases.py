"""A database whose writes can be counted, held back, and made to fail at their worst moment."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Literal

from ousel.database.port import Connections, Database, Result, Transaction, Work
from ousel.kernel.errors import DatabaseUnavailable, OutcomeUnknown
from tests.support.proxies import Cut

Deed = Callable[[], Awaitable[object]]
Fault = Cut | Literal["away", "broken"]


class _Undone(Exception):
    """Ends a transaction that shall not be committed."""


class Breakdown(Exception):
    """Something that nobody foresaw."""


class StagedDatabase:
    """Passes everything on to a real database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.writes = 0
        self.faults: deque[Fault] = deque()  # what happens to the next writes
        self.meanwhile: list[Deed] = []  # what others do after a fault
        self.entered = asyncio.Event()  # a write is about to begin
        self._gate = asyncio.Event()
        self._gate.set()

    def hold(self) -> None:
        """Let no write begin until `release`."""
        self.entered.clear()
        self._gate.clear()

    def release(self) -> None:
        """Let writes begin again."""
        self._gate.set()

    async def open(self) -> None:
        """The real one is open."""

    async def close(self) -> None:
        """The real one is closed by whoever opened it."""

    def version(self) -> int | None:
        """That of the real one."""
        return self._database.version()

    def connections(self) -> Connections:
        """Those of the real one."""
        return self._database.connections()

    async def read(self, work: Work[Result]) -> Result:
        return await self._database.read(work)

    async def snapshot(self, work: Work[Result]) -> Result:
        return await self._database.snapshot(work)

    async def write(self, work: Work[Result]) -> Result:
        self.writes += 1
        self.entered.set()
        await self._gate.wait()
        match self.faults.popleft() if self.faults else None:
            case None:
                return await self._database.write(work)
            case "away":
                raise DatabaseUnavailable("Away.")
            case "broken":
                raise Breakdown
            case "after the commit":
                await self._database.write(work)
            case "before the commit":
                await self._undone(work)
        while self.meanwhile:
            await self.meanwhile.pop()()
        raise OutcomeUnknown("The answer to the commit was lost.")

    async def _undone(self, work: Work[Result]) -> None:
        async def undone(transaction: Transaction) -> None:
            await work(transaction)
            raise _Undone

        try:
            await self._database.write(undone)
        except _Undone:
            return
