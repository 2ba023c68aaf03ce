"""A database whose writes can be counted, held back, and made to fail before or after a commit."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Literal

from typing_extensions import override

from ousel.database.port import Database, Result, Transaction, Work
from ousel.database.retries import RowsLocked, TransientFailure, with_retries
from ousel.kernel.deadlines import check_deadline
from ousel.kernel.errors import DatabaseUnavailable, OutcomeUnknown
from tests.support.delegating_database import DelegatingDatabase
from tests.support.postgres_proxy import Cut

Action = Callable[[], Awaitable[object]]
Fault = Cut | Literal["away", "broken", "locked"]


class _RolledBack(Exception):
    """Raised to roll a transaction back."""


class UnexpectedError(Exception):
    """An unexpected failure."""


class ControlledDatabase(DelegatingDatabase):
    """Delegates to a real database, unless a write is held back or made to fail."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.writes = 0
        self.faults: deque[Fault | None] = deque()  # one for each of the next writes
        self.actions_after_fault: list[Action] = []  # other callers' work after a fault
        self.actions_before_commit: list[Callable[[], object]] = []  # one per write
        self.write_started = asyncio.Event()  # a write is about to begin
        self._may_begin = asyncio.Event()
        self._may_begin.set()

    def hold(self) -> None:
        """Let no write begin until `release`."""
        self.write_started.clear()
        self._may_begin.clear()

    def release(self) -> None:
        """Let writes begin again."""
        self._may_begin.set()

    @override
    async def write(
        self,
        work: Work[Result],
        *,
        resolves_unknown_commit: bool = False,
        before_commit: Callable[[], None] | None = None,
        repeats_locked: bool = True,
    ) -> Result:
        async def attempt(in_doubt: bool) -> Result:  # noqa: FBT001 - as the policy calls it
            async def attempted(transaction: Transaction) -> Result:
                transaction.follows_unknown_commit = in_doubt
                return await work(transaction)

            def act_before_commit() -> None:
                if self.actions_before_commit:
                    self.actions_before_commit.pop(0)()
                (before_commit or check_deadline)()

            return await self._attempt(attempted, act_before_commit, repeats_locked)

        return await with_retries(
            attempt,
            resolves_unknown_commit=resolves_unknown_commit,
            repeats_locked=repeats_locked,
        )

    async def _attempt(
        self,
        work: Work[Result],
        before_commit: Callable[[], None],
        repeats_locked: bool,  # noqa: FBT001 - as `write` passes it on
    ) -> Result:
        self.writes += 1
        self.write_started.set()
        await self._may_begin.wait()
        fault = self.faults.popleft() if self.faults else None
        match fault:
            case None:
                return await self._database.write(
                    work, before_commit=before_commit, repeats_locked=repeats_locked
                )
            case "away":
                raise DatabaseUnavailable("Away.")
            case "broken":
                raise UnexpectedError
            case "after the commit":
                await self._database.write(work, before_commit=before_commit)
            case "before the commit" | "locked":
                await self._roll_back(work, before_commit)
        while self.actions_after_fault:
            await self.actions_after_fault.pop()()
        if fault == "locked":
            raise TransientFailure(RowsLocked())
        raise OutcomeUnknown("The answer to the commit was lost.")

    async def _roll_back(self, work: Work[Result], before_commit: Callable[[], None]) -> None:
        async def fail_at_the_end(transaction: Transaction) -> None:
            await work(transaction)
            before_commit()
            raise _RolledBack

        with suppress(_RolledBack):
            await self._database.write(fail_at_the_end)
