"""Wherever a process crashes, the sealer leaves no movement out and gives none two leaves."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from typing_extensions import override

from ousel.database.port import Result, Row, Transaction, Work
from ousel.database.statements import Statement, Table
from ousel.kernel.errors import OutcomeUnknown
from tests.sealed_log.logs import Log, send
from tests.support.accounts import person
from tests.support.controlled_database import ControlledDatabase
from tests.support.delegating_database import DelegatingDatabase
from tests.support.postgres_proxy import Cut

STATEMENTS_OF_A_STEP = 8


class Crash(Exception):
    """The process ends here."""


class CrashingDatabase(DelegatingDatabase):
    """Crashes just before a statement of the next transaction, by its number."""

    crash_at = 0

    @override
    async def write(self, work: Work[Result], **options: Any) -> Result:
        return await super().write(
            lambda transaction: work(_CrashingTransaction(transaction, self)), **options
        )

    def count(self) -> None:
        """Count a statement."""
        self.crash_at -= 1
        if self.crash_at == 0:
            raise Crash


class _CrashingTransaction:
    def __init__(self, transaction: Transaction, database: CrashingDatabase) -> None:
        self._transaction = transaction
        self._database = database
        self.follows_unknown_commit = transaction.follows_unknown_commit

    async def fetch(self, statement: Statement, **parameters: object) -> list[Row]:
        self._database.count()
        return await self._transaction.fetch(statement, **parameters)

    async def execute(self, statement: Statement, **parameters: object) -> int:
        self._database.count()
        return await self._transaction.execute(statement, **parameters)

    async def insert(self, table: Table, rows: Iterable[Sequence[object]]) -> None:
        self._database.count()
        await self._transaction.insert(table, rows)

    async def update(self, table: Table, rows: Iterable[Sequence[object]]) -> None:
        self._database.count()
        await self._transaction.update(table, rows)


@pytest.mark.parametrize("statement", range(1, STATEMENTS_OF_A_STEP + 1))
async def test_a_crash_before_any_statement_seals_nothing(log: Log, statement: int) -> None:
    """The next sealer continues where the last complete step ended."""
    ada = await person(log.database, "ada", "1")
    await person(log.database, "bob")
    await log.sealer.seal_all()
    await send(log.another_queue(), ada, "@bob", 3)
    before = await log.checkpoint()
    database = CrashingDatabase(log.database)
    crashing = log.another_sealer(database)
    database.crash_at = statement
    with pytest.raises(Crash):
        await crashing.seal_some()

    assert await log.checkpoint() == before
    assert await log.sealer.seal_all() == 3
    assert await log.assert_complete() == 4


async def test_a_step_has_no_more_statements_than_are_tested(log: Log) -> None:
    """So the test above crashes before each of them, and this one before the commit."""
    await person(log.database, "ada", "1")
    await log.sealer.seal_all()
    await person(log.database, "bob", "1")
    database = CrashingDatabase(log.database)
    sealer = log.another_sealer(database)

    await sealer.seal_some()

    assert -database.crash_at == STATEMENTS_OF_A_STEP


async def test_a_process_seals_what_it_has_written_without_reading_it(log: Log) -> None:
    """It remembers these movements, and their leaves are those of the stored entries."""
    ada = await person(log.database, "ada", "1")
    await person(log.database, "bob")
    await log.sealer.seal_all()
    await send(log.queue, ada, "@bob", 3)
    await send(log.queue, ada, "@bob", 2)
    database = CrashingDatabase(log.database)

    await log.another_sealer(database).seal_some()

    assert -database.crash_at == STATEMENTS_OF_A_STEP - 1
    assert await log.assert_complete() == 6


@pytest.mark.parametrize("cut", ["before the commit", "after the commit"])
async def test_a_lost_answer_to_the_commit_doubles_nothing(log: Log, cut: Cut) -> None:
    """Whether or not the step was committed, the next one seals what is left."""
    await person(log.database, "ada", "1")
    controlled = ControlledDatabase(log.database)
    sealer = log.another_sealer(controlled)
    await sealer.seal_all()
    await person(log.database, "bob", "1")
    controlled.faults.append(cut)

    with pytest.raises(OutcomeUnknown):
        await sealer.seal_some()

    await sealer.seal_all()
    assert await log.assert_complete() == 2
