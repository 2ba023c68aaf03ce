"""A database whose writes can be counted, held back, and made to fail at their worst moment."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Literal

from typing_extensions import override

from ousel.database.port import Database, Result, Transaction, Work
from ousel.kernel.errors import DatabaseUnavailable, OutcomeUnknown
from tests.support.delegating_database import DelegatingDatabase
from tests.support.postgres_proxy import Cut

Deed = Callable[[], Awaitable[object]]
Fault = Cut | Literal["away", "broken"]


class _Undone(Exception):
    """Ends a transaction that shall not be committed."""


class Breakdown(Exception):
    """Something that nobody foresaw."""


class StagedDatabase(DelegatingDatabase):
    """Passes everything on to a real database, unless a write is held back or made to fail."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
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

    @override
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
