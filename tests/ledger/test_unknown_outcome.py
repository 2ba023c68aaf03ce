"""If the answer to a commit is lost, the journal shows whether it took effect; money moves once."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from ousel.database.port import Transaction
from ousel.database.postgres import PostgresDatabase
from ousel.database.retries import UNKNOWN_OUTCOMES_MAX
from ousel.kernel.clock import system_clock
from ousel.kernel.errors import DatabaseUnavailable, OutcomeUnknown
from ousel.ledger import journal
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import KeyCheck, KeyRejected, Movement, Refused, Replay
from tests.ledger.conftest import LedgerWorld
from tests.ledger.examples import posting, refusals
from tests.support.accounts import balance, person, verify
from tests.support.controlled_database import Fault
from tests.support.engines import Engines
from tests.support.postgres_proxy import Cut, PostgresProxy
from tests.support.raw_sql import RawSql

CUTS: tuple[Cut, ...] = ("before the commit", "after the commit")

TABLES = ("accounts", "entries", "unsealed_batches")

either_cut = pytest.mark.parametrize("cut", CUTS)
with_and_without_key = pytest.mark.parametrize("key", ["k", None])


@either_cut
@with_and_without_key
async def test_it_moves_exactly_once(world: LedgerWorld, cut: Cut, key: str | None) -> None:
    """There is one movement, whether or not the commit took effect, with or without a key."""
    world.controlled.faults.append(cut)

    answer = await world.queue.post(posting(world.ada.id, "@bob", 30, key=key))

    assert world.controlled.writes == 2
    assert isinstance(answer.outcome, Movement)
    assert await world.balances() == (70, 30)
    assert [entry.transfer_id for entry in await world.entries(world.bob)] == [
        answer.outcome.debit.transfer_id
    ]
    assert (await world.entries(world.bob))[0] == answer.outcome.credit
    assert (await world.entries(world.ada))[-1] == answer.outcome.debit
    await verify(world.database)


@either_cut
async def test_each_posting_of_a_batch_gets_its_outcome(world: LedgerWorld, cut: Cut) -> None:
    """Movements, replays, refusals and rejected keys are the same as without the fault."""
    world.controlled.faults.append(cut)
    postings = [
        posting(world.ada.id, "@bob", 30, key="k"),
        posting(world.ada.id, "@bob", 30, key="k"),
        posting(world.ada.id, "@bob", 1_000),
        posting(world.ada.id, "bob@example.com", 7),
        posting(world.bob.id, "@ada", 5),
        posting(world.ada.id, "@nobody", 5),
        posting(world.ada.id, "@bob", 5, key_check=KeyCheck(world.ada.id, "revoked")),
    ]

    answers = await asyncio.gather(*(world.queue.post(each) for each in postings))

    kinds = [type(answer.outcome) for answer in answers]
    assert kinds == [Movement, Replay, Refused, Movement, Movement, Refused, KeyRejected]
    assert await world.balances() == (68, 32)
    await verify(world.database)


@either_cut
@with_and_without_key
async def test_entries_of_others_do_not_hide_the_movement(
    world: LedgerWorld, cut: Cut, key: str | None
) -> None:
    """Even if others have written to the same accounts since, it is found, or moved once."""
    other = PostingQueue(world.database, system_clock, queue_limit=10)

    async def others() -> None:
        for _ in range(5):
            await other.post(posting(world.ada.id, "@bob", 1))
            await other.post(posting(world.bob.id, "@ada", 1))

    world.controlled.faults.append(cut)
    world.controlled.actions_after_fault.append(others)
    await other.post(posting(world.ada.id, "@bob", 1))

    answer = await world.queue.post(posting(world.ada.id, "@bob", 30, key=key))

    assert isinstance(answer.outcome, Movement)
    assert await world.balances() == (69, 31)
    await verify(world.database)


@either_cut
async def test_a_movement_is_found_though_its_email_names_another_account_now(
    world: LedgerWorld, cut: Cut
) -> None:
    """The money moves once, to the account that the email named when the transfer began."""
    eve = await person(world.database, "eve")

    async def change_owner(transaction: Transaction) -> None:
        await journal.release_identifier(transaction, "bob@example.com", world.bob.id)
        await journal.claim_identifier(transaction, "bob@example.com", eve.id)

    world.controlled.faults.append(cut)
    world.controlled.actions_after_fault.append(lambda: world.database.write(change_owner))
    answers = await asyncio.gather(
        world.queue.post(posting(world.ada.id, "bob@example.com", 30)),
        world.queue.post(posting(world.ada.id, "@eve", 5)),
    )
    later = await world.queue.post(posting(world.ada.id, "bob@example.com", 1))

    moved = [each.outcome for each in (*answers, later)]
    assert all(isinstance(each, Movement) for each in moved)
    assert await world.balances() == (64, 30)
    assert await balance(world.database, eve) == 6
    await verify(world.database)


async def test_a_movement_stays_though_the_recipient_has_spent_it(world: LedgerWorld) -> None:
    """If the commit took effect and the recipient has spent the money, the sender gets Movement."""
    other = PostingQueue(world.database, system_clock, queue_limit=10)
    world.controlled.faults.append("after the commit")
    world.controlled.actions_after_fault.append(
        lambda: other.post(posting(world.bob.id, "@ada", 100))
    )

    answer = await world.queue.post(posting(world.ada.id, "@bob", 100))

    assert isinstance(answer.outcome, Movement)
    assert answer.outcome.debit.balance_after == 0
    await verify(world.database)


async def test_a_refused_posting_is_decided_again(world: LedgerWorld) -> None:
    """A refusal writes nothing, so after a lost commit the rules use the current balances."""
    other = PostingQueue(world.database, system_clock, queue_limit=10)
    eve = await person(world.database, "eve", "0.001")
    world.controlled.faults.append("after the commit")
    world.controlled.actions_after_fault.append(lambda: other.post(posting(eve.id, "@ada", 500)))

    small, large = await asyncio.gather(
        world.queue.post(posting(world.ada.id, "@bob", 1)),
        world.queue.post(posting(world.ada.id, "@bob", 300)),
    )

    assert refusals([small.outcome, large.outcome]) == [None, None]
    assert await world.balances() == (299, 301)
    await verify(world.database)


@pytest.mark.parametrize("last", CUTS)
@with_and_without_key
async def test_several_lost_answers_are_resolved(
    world: LedgerWorld, last: Cut, key: str | None
) -> None:
    """Four commits are lost, of which one or none took effect; there is one movement."""
    world.controlled.faults.extend([CUTS[0], CUTS[0], CUTS[0], last])

    answer = await world.queue.post(posting(world.ada.id, "@bob", 30, key=key))

    assert world.controlled.writes == UNKNOWN_OUTCOMES_MAX == 5
    assert isinstance(answer.outcome, Movement)
    assert await world.balances() == (70, 30)
    await verify(world.database)


async def test_each_attempt_names_its_batch_differently(
    world: LedgerWorld, raw_sql: RawSql
) -> None:
    """On Citus the name chooses a server, so the next attempt may need another server."""
    world.controlled.faults.extend([CUTS[0], CUTS[0]])

    answer = await world.queue.post(posting(world.ada.id, "@bob", 30))

    assert isinstance(answer.outcome, Movement)
    ids = {id_ for (id_,) in await raw_sql.run("SELECT id FROM unsealed_batches")}
    transfer_id = answer.outcome.debit.transfer_id
    assert f"{transfer_id}2" in ids
    assert transfer_id not in ids
    assert world.queue.recent_movements.take_oldest() == (f"{transfer_id}2", [answer.outcome])


@pytest.mark.parametrize("lost", [1, 3])
@with_and_without_key
async def test_a_transfer_moves_once_though_the_database_lost_history(
    world: LedgerWorld, raw_sql: RawSql, lost: int, key: str | None
) -> None:
    """A switch of leaders loses the last movements and this one; then another answer is lost."""
    for table in TABLES:
        await raw_sql.run(f"CREATE TABLE {table}_saved AS SELECT * FROM {table}")
    for _ in range(lost):
        await world.queue.post(posting(world.ada.id, "@bob", 1))

    async def lose_history() -> None:
        for table in TABLES:
            await raw_sql.run(f"DELETE FROM {table}")
            await raw_sql.run(f"INSERT INTO {table} SELECT * FROM {table}_saved")

    world.controlled.faults.extend(["after the commit", "after the commit"])
    world.controlled.actions_after_fault.append(lose_history)

    answer = await world.queue.post(posting(world.ada.id, "@bob", 30, key=key))

    assert isinstance(answer.outcome, Movement)
    assert await world.entries(world.bob) == [answer.outcome.credit]
    assert await world.balances() == (70, 30)
    await verify(world.database)


@either_cut
async def test_an_outcome_that_stays_unknown_is_reported(world: LedgerWorld, cut: Cut) -> None:
    """After five lost answers the caller gets OutcomeUnknown; a retry with its key resolves it."""
    world.controlled.faults.extend([cut] * 5)

    with pytest.raises(OutcomeUnknown):
        await world.queue.post(posting(world.ada.id, "@bob", 30, key="k"))
    answer = await world.queue.post(posting(world.ada.id, "@bob", 30, key="k"))

    assert isinstance(answer.outcome, Movement if cut == "before the commit" else Replay)
    assert await world.balances() == (70, 30)


@pytest.mark.parametrize("then", ["away", "broken"])
@either_cut
async def test_any_failure_in_doubt_is_an_unknown_outcome(
    world: LedgerWorld, cut: Cut, then: Fault
) -> None:
    """If a commit may have taken effect, the answer does not deny it, and nothing is repeated."""
    world.controlled.faults.extend([cut, then])

    answers = await asyncio.gather(
        *(world.queue.post(posting(world.ada.id, "@bob", 30)) for _ in range(2)),
        return_exceptions=True,
    )

    assert [type(answer) for answer in answers] == [OutcomeUnknown] * 2
    assert world.controlled.writes == 2
    assert await world.balances() == ((100, 0) if cut == "before the commit" else (40, 60))
    await verify(world.database)


async def test_a_failure_before_any_commit_is_no_unknown_outcome(world: LedgerWorld) -> None:
    """If the database was unavailable before any commit, the caller gets just that."""
    world.controlled.faults.append("away")

    with pytest.raises(DatabaseUnavailable):
        await world.queue.post(posting(world.ada.id, "@bob", 30))

    assert await world.balances() == (100, 0)


@pytest.fixture
def postgres_url(engines: Engines, tmp_path: Path) -> Iterator[str]:
    url = engines.fresh_url("postgresql", tmp_path)
    yield url
    engines.give_back(url)


@pytest.mark.parametrize(
    ("cuts", "key"),
    [
        ([CUTS[0]], "k"),
        ([CUTS[1]], "k"),
        ([CUTS[0]], None),
        ([CUTS[1]], None),
        ([CUTS[0], CUTS[1]], None),
        ([CUTS[1], CUTS[0]], None),
    ],
)
async def test_a_connection_cut_at_the_commit_moves_once(
    postgres_url: str, cuts: list[Cut], key: str | None
) -> None:
    """The same is true of a real connection to PostgreSQL, cut before or after the commit."""
    async with PostgresProxy(postgres_url) as wire:
        database = PostgresDatabase(wire.url)
        await database.open()
        ada, bob = await person(database, "ada", "1"), await person(database, "bob")
        wire.cuts.extend(cuts)
        queue = PostingQueue(database, system_clock, queue_limit=10)

        answers = await asyncio.gather(
            *(queue.post(posting(ada.id, "@bob", 10, key=key and f"{key}{n}")) for n in range(3))
        )

        assert [type(answer.outcome) for answer in answers] == [Movement] * 3
        assert not wire.cuts
        assert await balance(database, bob) == 30
        await verify(database)
        await database.close()
