"""If another transaction locks a row on PostgreSQL, only the postings that need the row wait."""

import asyncio

import pytest

from ousel.database.port import Database
from ousel.kernel.clock import system_clock
from ousel.kernel.deadlines import set_deadline
from ousel.kernel.errors import DeadlineExceeded
from ousel.ledger.batch import PostingResult
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import Account, Movement, Posting
from tests.ledger.examples import posting
from tests.support.accounts import balance, person, verify
from tests.support.controlled_database import ControlledDatabase
from tests.support.raw_sql import RawSql
from tests.support.waiting import assert_none_ends, until_blocked

pytestmark = pytest.mark.parametrize("engine", ["postgresql"])  # SQLite has no row locks

LOCK = "SELECT id FROM accounts WHERE id = ? FOR UPDATE"


@pytest.fixture
def queue(database: Database) -> PostingQueue:
    """A queue on a fresh database."""
    return PostingQueue(database, system_clock, queue_limit=1_000)


@pytest.fixture
async def people(database: Database) -> list[Account]:
    """Ada, Bob, Carol and Dan, who have a million millionths each."""
    return [await person(database, name, "1") for name in ("ada", "bob", "carol", "dan")]


async def lock(raw_sql: RawSql, *accounts: Account) -> None:
    """Lock these accounts until the next COMMIT."""
    await raw_sql.run("BEGIN")
    for account in accounts:
        await raw_sql.run(LOCK, account.id)


def post(queue: PostingQueue, *postings: Posting) -> "list[asyncio.Task[PostingResult]]":
    """Post at once."""
    return [asyncio.create_task(queue.post(each)) for each in postings]


async def test_others_are_written_while_a_row_is_locked(
    database: Database, raw_sql: RawSql, queue: PostingQueue, people: list[Account]
) -> None:
    """Strangers of the same batch and of the next are answered; then the one that waited."""
    ada, bob, carol, _ = people
    await lock(raw_sql, bob)

    [blocked, first] = post(queue, posting(ada.id, "@bob", 5), posting(carol.id, "@dan", 1))
    await first
    for _ in range(3):
        await queue.post(posting(carol.id, "@dan", 1))
    await assert_none_ends(blocked, seconds=0.05)
    await raw_sql.run("COMMIT")

    assert isinstance((await blocked).outcome, Movement)
    assert await balance(database, bob) == 1_000_005
    assert await balance(database, carol) == 999_996
    await verify(database)


async def test_a_posting_that_waits_locks_nobody_else(
    database_url: str, raw_sql: RawSql, queue: PostingQueue, people: list[Account]
) -> None:
    """The sender whose recipient is locked can still send to others, in either order of ids."""
    ada, bob, carol, _ = people
    await lock(raw_sql, bob)

    blocked = post(queue, posting(ada.id, "@bob", 5), posting(carol.id, "@bob", 5))
    await until_blocked(database_url)
    others = post(queue, posting(ada.id, "@dan", 1), posting(carol.id, "@dan", 1))
    others += post(queue, posting(ada.id, "@carol", 1), posting(carol.id, "@ada", 1))
    results = await asyncio.gather(*others)
    assert not any(each.done() for each in blocked)
    await raw_sql.run("COMMIT")

    assert [type(each.outcome) for each in results] == [Movement] * 4
    assert [type(each.outcome) for each in await asyncio.gather(*blocked)] == [Movement] * 2


async def test_each_locked_row_is_waited_for_by_itself(
    database_url: str, raw_sql: RawSql, queue: PostingQueue, people: list[Account]
) -> None:
    """Who waits for one row is written as soon as it is free, though another stays locked."""
    ada, bob, carol, dan = people
    async with RawSql(database_url) as other:
        await lock(raw_sql, bob)
        await lock(other, dan)
        to_bob, to_dan, both = post(
            queue,
            posting(ada.id, "@bob", 5),
            posting(carol.id, "@dan", 5),
            posting(bob.id, "@dan", 5),
        )
        await until_blocked(database_url, times=2)
        await raw_sql.run("COMMIT")
        await to_bob
        await assert_none_ends(to_dan, both, seconds=0.05)
        await other.run("COMMIT")

        results = await asyncio.gather(to_dan, both)

    assert [type(each.outcome) for each in results] == [Movement] * 2


async def test_a_row_that_stays_locked_is_waited_for_until_the_deadline(
    database: Database,
    database_url: str,
    raw_sql: RawSql,
    queue: PostingQueue,
    people: list[Account],
) -> None:
    """Then the postings are refused; when the row is free, nothing moves."""
    ada, bob, carol, _ = people
    await lock(raw_sql, bob)

    async def post_briefly(wanted: Posting) -> PostingResult:
        set_deadline(asyncio.get_running_loop().time() + 0.1)
        return await queue.post(wanted)

    late = await asyncio.gather(
        *(post_briefly(posting(ada.id, "@bob", 5, key=f"k{number}")) for number in range(5)),
        return_exceptions=True,
    )
    still_there = asyncio.create_task(queue.post(posting(carol.id, "@bob", 1)))
    await until_blocked(database_url)
    await raw_sql.run("COMMIT")
    await still_there
    await queue.close()

    assert [type(each) for each in late] == [DeadlineExceeded] * 5
    assert await balance(database, bob) == 1_000_001


async def test_a_caller_that_left_while_its_row_was_locked_moves_nothing(
    database: Database,
    database_url: str,
    raw_sql: RawSql,
    queue: PostingQueue,
    people: list[Account],
) -> None:
    """A posting that waits for a row has not begun, so it is dropped with its caller."""
    ada, bob, carol, _ = people
    await lock(raw_sql, bob)
    leaving, staying = post(queue, posting(ada.id, "@bob", 5), posting(carol.id, "@bob", 1))
    await until_blocked(database_url)
    leaving.cancel()
    await raw_sql.run("COMMIT")
    await staying

    assert await balance(database, bob) == 1_000_001


async def test_an_idempotency_key_moves_once_though_its_row_was_locked(
    database: Database,
    database_url: str,
    raw_sql: RawSql,
    queue: PostingQueue,
    people: list[Account],
) -> None:
    """Postings with one key, set aside by two processes, are one movement."""
    ada, bob, _, _ = people
    other = PostingQueue(database, system_clock, queue_limit=100)
    await lock(raw_sql, bob)
    tasks = [
        *post(queue, *(posting(ada.id, "@bob", 5, key="k") for _ in range(3))),
        *post(other, *(posting(ada.id, "@bob", 5, key="k") for _ in range(3))),
    ]
    await until_blocked(database_url)
    await raw_sql.run("COMMIT")
    results = await asyncio.gather(*tasks)

    assert sorted(type(each.outcome).__name__ for each in results) == ["Movement"] + ["Replay"] * 5
    assert await balance(database, bob) == 1_000_005
    await verify(database)


async def test_a_batch_waits_for_all_its_rows_after_a_lost_commit(
    database: Database, database_url: str, raw_sql: RawSql, people: list[Account]
) -> None:
    """It must see what it has written before: if it left a row out, the money would move twice."""
    ada, bob, _, _ = people
    controlled = ControlledDatabase(database)
    controlled.faults.append("after the commit")
    controlled.actions_after_fault.append(lambda: lock(raw_sql, bob))
    queue = PostingQueue(controlled, system_clock, queue_limit=10)

    [waiting] = post(queue, posting(ada.id, "@bob", 5))
    await until_blocked(database_url)
    await raw_sql.run("COMMIT")

    assert isinstance((await waiting).outcome, Movement)
    assert await balance(database, bob) == 1_000_005
    await verify(database)
