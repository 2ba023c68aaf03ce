"""Batching: callers that arrive while a transaction runs share the next one."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest
from typing_extensions import override

from ousel.database.batching import BATCH_ITEMS_MAX, SharedReads, SharedWrites
from ousel.database.port import Database, IntegrityViolation, Result, Transaction, Work
from ousel.database.retries import RowsLocked
from ousel.database.statements import Statement
from ousel.kernel.errors import DatabaseUnavailable
from tests.database.sample_rows import SAMPLE_TABLE
from tests.support.delegating_database import DelegatingDatabase
from tests.support.engines import Engine
from tests.support.raw_sql import RawSql

VALUES = Statement("values", "SELECT name, value FROM deployment WHERE name = ANY(:names)")


class Loader:
    """Looks names up, and records which names each call asked for."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.failures: list[Exception] = []

    async def __call__(self, transaction: Transaction, names: list[str]) -> dict[str, str | None]:
        self.asked.append(names)
        if self.failures:
            raise self.failures.pop()
        rows = await transaction.fetch(VALUES, names=names)
        found: dict[str, str | None] = dict.fromkeys(name for name in names if name != "forgotten")
        return found | {row[0]: row[1] for row in rows}


@pytest.fixture
def loader() -> Loader:
    return Loader()


@pytest.fixture
async def reads(database: Database, loader: Loader) -> SharedReads[str, str | None]:
    rows = [(f"name {number}", f"value {number}") for number in range(10)]
    await database.write(lambda transaction: transaction.insert(SAMPLE_TABLE, rows))
    return SharedReads(database, loader)


async def results_or_errors(*asked: Awaitable[Any]) -> list[Any]:
    return await asyncio.gather(*asked, return_exceptions=True)


async def test_callers_that_arrive_together_share_one_read(
    reads: SharedReads[str, str | None], loader: Loader
) -> None:
    """A hundred callers with ten keys take one statement, and each caller gets its own answer."""
    names = [f"name {number % 10}" for number in range(100)]

    answers = await asyncio.gather(*(reads.get(name) for name in names))

    assert answers == [name.replace("name", "value") for name in names]
    assert len(loader.asked) == 1
    assert sorted(loader.asked[0]) == sorted(set(names))


async def test_sqlite_does_not_read_again_what_has_not_changed(
    reads: SharedReads[str, str | None], loader: Loader, engine: Engine
) -> None:
    """SQLite shows whether anything was committed; PostgreSQL has to be asked every time."""
    answers = [await reads.get("name 1") for _ in range(3)]

    assert answers == ["value 1"] * 3
    assert len(loader.asked) == (1 if engine == "sqlite" else 3)


async def test_only_values_that_are_worth_it_are_cached(database: Database, loader: Loader) -> None:
    """A client that reads a long history must not fill the cache."""
    reads = SharedReads[str, str | None](
        database, loader, is_worth_caching=lambda name: name is not None
    )

    assert [await reads.get("unknown") for _ in range(2)] == [None, None]
    assert len(loader.asked) == 2


async def test_the_next_read_sees_every_change(
    database: Database, raw_sql: RawSql, reads: SharedReads[str, str | None]
) -> None:
    """It does not matter whether this process or another one committed the change."""
    before = await reads.get("name 1")
    await raw_sql.run("UPDATE deployment SET value = 'theirs' WHERE name = 'name 1'")
    theirs = await reads.get("name 1")
    await database.write(lambda transaction: transaction.update(SAMPLE_TABLE, [("name 1", "ours")]))
    ours = await reads.get("name 1")

    assert [before, theirs, ours] == ["value 1", "theirs", "ours"]


async def test_an_answer_is_never_older_than_its_call(
    database: Database, raw_sql: RawSql, loader: Loader
) -> None:
    """A call after a write sees it, even while a read that began before the write still runs."""
    late: list[asyncio.Task[str | None]] = []
    shared: SharedReads[str, str | None]

    async def load(transaction: Transaction, names: list[str]) -> dict[str, str | None]:
        found = await loader(transaction, names)
        if not late:
            await raw_sql.run("INSERT INTO deployment VALUES ('name 1', 'new')")
            late.append(asyncio.create_task(shared.get("name 1")))
        return found

    shared = SharedReads(database, load)

    assert await shared.get("name 1") is None
    assert await late[0] == "new"
    assert loader.asked == [["name 1"]] * 2


async def test_a_read_has_a_limit(reads: SharedReads[str, str | None], loader: Loader) -> None:
    """More keys than one batch takes are read in several."""
    names = [f"other {number}" for number in range(BATCH_ITEMS_MAX + 1)]

    answers = await asyncio.gather(*(reads.get(name) for name in names))

    assert answers == [None] * len(names)
    assert [len(asked) for asked in loader.asked] == [BATCH_ITEMS_MAX, 1]


async def test_a_key_at_fault_fails_alone(
    reads: SharedReads[str, str | None], loader: Loader
) -> None:
    """A key that the database cannot hold, or that has no value, fails only its own caller."""
    names = ["name 1", "\ud800", "name 2", "forgotten", "name 3"]

    found = await results_or_errors(*(reads.get(name) for name in names))

    assert [found[0], found[2], found[4]] == ["value 1", "value 2", "value 3"]
    assert isinstance(found[1], Exception)
    assert isinstance(found[3], KeyError)
    assert await reads.get("name 4") == "value 4"
    assert sum(len(asked) for asked in loader.asked) < 20


async def test_an_unavailable_database_fails_only_the_current_callers(
    reads: SharedReads[str, str | None], loader: Loader
) -> None:
    """Each caller of a failed read gets the refusal, without retries; the next read succeeds."""
    loader.failures.append(DatabaseUnavailable("Gone."))

    found = await results_or_errors(reads.get("name 1"), reads.get("name 2"))

    assert [type(each) for each in found] == [DatabaseUnavailable] * 2
    assert loader.asked == [["name 1", "name 2"]]
    assert await reads.get("name 1") == "value 1"


async def test_a_canceled_caller_does_not_affect_others(
    reads: SharedReads[str, str | None],
) -> None:
    """If one of two callers of the same key is canceled, the other is still answered."""
    leaving = asyncio.create_task(reads.get("name 1"))
    staying = asyncio.create_task(reads.get("name 1"))
    await asyncio.sleep(0)  # lets the tasks start
    leaving.cancel()

    assert await staying == "value 1"
    with suppress(asyncio.CancelledError):
        await leaving
    assert leaving.cancelled()


async def test_items_that_wait_together_are_one_commit(database: Database) -> None:
    """Of a hundred callers, the first is written at once, the others together; all are answered."""
    commits: list[int] = []
    begun = asyncio.Event()

    async def write(transaction: Transaction, names: list[str]) -> list[str]:
        commits.append(len(names))
        begun.set()
        await transaction.insert(SAMPLE_TABLE, [(name, "new") for name in names])
        return [f"{name} is there" for name in names]

    writes = SharedWrites(database, write)
    first = asyncio.create_task(writes.put("name 0"))
    await begun.wait()
    names = [f"name {number}" for number in range(1, 100)]
    answers = await asyncio.gather(first, *map(writes.put, names))

    assert answers == [f"{name} is there" for name in ["name 0", *names]]
    assert commits == [1, 99]
    rows = await database.read(lambda transaction: transaction.fetch(VALUES, names=names))
    assert len(rows) == 99


async def test_a_caller_who_leaves_before_the_turn_of_its_batch_is_left_out(
    database: Database,
) -> None:
    """The others are written at once, not again without it."""
    written: list[list[str]] = []
    begun, may_go_on = asyncio.Event(), asyncio.Event()

    async def write(transaction: Transaction, names: list[str]) -> list[str]:
        written.append(names)
        await transaction.insert(SAMPLE_TABLE, [(name, "new") for name in names])
        return names

    class WaitingDatabase(DelegatingDatabase):
        @override
        async def write(self, work: Work[Result], **options: Any) -> Result:
            begun.set()
            await may_go_on.wait()
            return await super().write(work, **options)

    writes = SharedWrites(WaitingDatabase(database), write)
    callers = [asyncio.create_task(writes.put(name)) for name in ("one", "two", "three")]
    await begun.wait()
    callers[1].cancel()
    await asyncio.sleep(0)  # lets the caller leave
    may_go_on.set()

    assert [await callers[0], await callers[2]] == ["one", "three"]
    assert written == [["one", "three"]]


async def test_a_batch_is_halved_if_callers_leave_while_it_is_written(database: Database) -> None:
    """Otherwise, a batch that takes long would begin again and again as its callers leave."""
    written: list[int] = []
    callers: list[asyncio.Task[int]] = []

    async def write(_: Transaction, numbers: list[int]) -> list[int]:
        written.append(len(numbers))
        if len(numbers) > 2:
            callers[numbers[-1]].cancel()
            await asyncio.sleep(0)  # lets the caller leave
        return numbers

    class PatientDatabase(DelegatingDatabase):
        """Its transactions may suspend on either engine."""

        @override
        async def write(self, work: Work[Result], **options: Any) -> Result:
            result = await work(cast("Transaction", SimpleNamespace(follows_unknown_commit=False)))
            options["before_commit"]()
            return result

    writes = SharedWrites(PatientDatabase(database), write)
    callers += [asyncio.create_task(writes.put(number)) for number in range(9)]
    answers = await results_or_errors(*callers)

    assert written == [9, 4, 1, 2, 4, 1, 2]
    assert [each for each in answers if isinstance(each, int)] == [0, 1, 2, 4, 5, 6]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["postgresql"])  # on SQLite, there is one writer at a time
async def test_a_locked_row_refuses_only_the_item_that_needs_it(
    database: Database, database_url: str
) -> None:
    """Another process may be writing a row with the same key for a long time."""

    async def write(transaction: Transaction, names: list[str]) -> list[str]:
        await transaction.insert(SAMPLE_TABLE, [(name, "new") for name in names])
        return names

    writes = SharedWrites(database, write)
    async with RawSql(database_url) as holder:
        await holder.run("BEGIN")
        await holder.run("INSERT INTO deployment VALUES ('locked', '')")
        found = await results_or_errors(*(writes.put(each) for each in ("one", "locked", "two")))
        await holder.run("ROLLBACK")

    assert [found[0], found[2]] == ["one", "two"]
    assert isinstance(found[1], RowsLocked)


async def test_only_the_row_at_fault_is_refused(database: Database) -> None:
    """The other rows of its batch are written."""

    async def write(transaction: Transaction, names: list[str]) -> list[bool]:
        await transaction.insert(SAMPLE_TABLE, [(name, "new") for name in names])
        return [True for _ in names]

    writes = SharedWrites(database, write)
    await writes.put("taken")
    found = await results_or_errors(*(writes.put(name) for name in ("one", "taken", "two")))

    assert [found[0], found[2]] == [True, True]
    assert isinstance(found[1], IntegrityViolation)
