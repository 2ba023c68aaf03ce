"""The posting queue: postings that wait are written together, in order, and all are answered."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from typing_extensions import override

from ousel.database.clock import database_time
from ousel.database.port import Transaction
from ousel.kernel.clock import MICROS_PER_SECOND, system_clock
from ousel.kernel.errors import DatabaseUnavailable
from ousel.ledger.batch import PostingResult
from ousel.ledger.queue import PostingQueue
from ousel.ledger.refusals import (
    IdempotencyConflict,
    InsufficientBalance,
    PostingRefused,
    QueueFull,
)
from ousel.ledger.rules import Account, Movement, Posting, Replay
from ousel.ledger.writer import BATCH_POSTINGS_MAX, UNHALVED_POSTINGS_MAX
from tests.ledger.conftest import LedgerWorld
from tests.ledger.examples import posting, refusals
from tests.support.accounts import verify
from tests.support.clock import ManualClock
from tests.support.waiting import until

HOUR_MICROS = 3600 * MICROS_PER_SECOND


async def post_all(queue: PostingQueue, *postings: Posting) -> list[Any]:
    """Post all at once; return each result, or the error that was raised instead."""
    return await asyncio.gather(*(queue.post(each) for each in postings), return_exceptions=True)


async def test_a_posting_is_on_disk_when_it_is_answered(world: LedgerWorld) -> None:
    """The answer has both entries and both accounts, and the database already has them too."""
    answer = await world.queue.post(posting(world.ada.id, "@bob", 30, note="Tea"))

    assert isinstance(answer.outcome, Movement)
    assert answer.debit_account is not None
    assert answer.credit_account is not None
    assert (answer.debit_account.username, answer.credit_account.username) == ("ada", "bob")
    assert await world.balances() == (70, 30)
    assert (await world.entries(world.bob))[-1] == answer.outcome.credit
    assert (await world.entries(world.ada))[-1] == answer.outcome.debit
    await verify(world.database)


class ClockOfTheDatabase(ManualClock):
    """Shows an hour more than the database's clock, like a sandbox that was advanced."""

    @override
    def from_database(self, reading: int) -> int:
        return reading + HOUR_MICROS


async def test_the_clock_of_the_database_dates_a_movement(world: LedgerWorld) -> None:
    """What the host's clock shows has no influence."""
    queue = world.another_queue(ClockOfTheDatabase(now=0))

    before = await world.database.read(database_time)
    answer = await queue.post(posting(world.ada.id, "@bob", 30))
    after = await world.database.read(database_time)

    assert isinstance(answer.outcome, Movement)
    assert before <= answer.outcome.debit.created_at - HOUR_MICROS <= after


async def test_postings_that_arrive_together_share_a_transaction(world: LedgerWorld) -> None:
    """The postings of a few simultaneous callers are one transaction."""
    postings = [posting(world.ada.id, "@bob") for _ in range(UNHALVED_POSTINGS_MAX)]
    answers = await post_all(world.queue, *postings)

    assert all(isinstance(answer.outcome, Movement) for answer in answers)
    assert world.controlled.writes == 1
    assert await world.balances() == (100 - UNHALVED_POSTINGS_MAX, UNHALVED_POSTINGS_MAX)


async def test_a_queue_remembers_the_movements_that_it_has_written(world: LedgerWorld) -> None:
    """They are kept batch by batch; what was refused is not among them."""
    answers = [await world.queue.post(posting(world.ada.id, "@bob", 1)) for _ in range(2)]
    await world.queue.post(posting(world.ada.id, "@bob", 1_000))

    recent = world.queue.recent_movements
    movements = [each.outcome for each in answers if isinstance(each.outcome, Movement)]
    batches = [(each.debit.transfer_id, [each]) for each in movements]
    assert [recent.take_oldest() for _ in answers] == batches
    assert recent.take_oldest() is None


async def test_many_callers_are_written_in_two_halves(world: LedgerWorld) -> None:
    """Of a hundred callers, the first half is answered while the second is written."""
    calls = [
        asyncio.create_task(world.queue.post(posting(world.ada.id, "@bob"))) for _ in range(100)
    ]
    await world.controlled.write_started.wait()
    world.controlled.hold()
    await world.controlled.write_started.wait()
    await asyncio.gather(*calls[:50])

    assert not any(call.done() for call in calls[50:])
    assert world.controlled.writes == 2
    world.controlled.release()
    await asyncio.gather(*calls)
    assert world.controlled.writes == 2
    assert await world.balances() == (0, 100)
    await verify(world.database)


async def test_what_arrives_during_a_commit_is_the_next_batch(world: LedgerWorld) -> None:
    """One batch is written at a time; postings that arrive meanwhile share the next."""
    world.controlled.hold()
    first = asyncio.create_task(world.queue.post(posting(world.ada.id, "@bob")))
    await world.controlled.write_started.wait()
    postings = [posting(world.ada.id, "@bob") for _ in range(15)]
    others = [asyncio.create_task(world.queue.post(each)) for each in postings]
    await until(lambda: world.queue.waiting_count == len(others))
    world.controlled.release()
    await asyncio.gather(first, *others)

    assert world.controlled.writes == 2
    assert await world.balances() == (84, 16)


async def test_a_batch_has_a_limit(world: LedgerWorld) -> None:
    """More postings than one batch takes are written in several, none of which takes long."""
    postings = [posting(world.ada.id, "@bob", 101) for _ in range(2 * BATCH_POSTINGS_MAX + 1)]

    answers = await post_all(world.queue, *postings)

    assert {type(answer.outcome.refusal) for answer in answers} == {InsufficientBalance}
    assert world.controlled.writes == 3


async def test_postings_are_decided_in_the_order_of_their_arrival(world: LedgerWorld) -> None:
    """Entries are numbered in the order of the calls."""
    postings = [posting(world.ada.id, "@bob", amount) for amount in (60, 50, 40, 1)]

    answers = await post_all(world.queue, *postings)

    assert refusals([answer.outcome for answer in answers]) == [
        None,
        InsufficientBalance,
        None,
        InsufficientBalance,
    ]
    assert [entry.amount for entry in await world.entries(world.bob)] == [60, 40]
    await verify(world.database)


async def test_simultaneous_postings_with_one_key_move_once(world: LedgerWorld) -> None:
    """There is one movement, and every caller gets it, also through two queues."""
    postings = [posting(world.ada.id, "@bob", 10, key="only-once") for _ in range(40)]
    other = world.another_queue()

    answers = await asyncio.gather(
        *(world.queue.post(each) for each in postings[:20]),
        *(other.post(each) for each in postings[20:]),
    )

    kinds = [type(answer.outcome) for answer in answers]
    assert (kinds.count(Movement), kinds.count(Replay)) == (1, 39)
    assert len({_transfer_id(answer) for answer in answers}) == 1
    assert await world.balances() == (90, 10)


async def test_a_key_is_known_forever(world: LedgerWorld) -> None:
    """Another process gets the first movement again, or a conflict that names it."""
    first = await world.queue.post(posting(world.ada.id, "@bob", 10, key="k"))
    bob_by_email = posting(world.ada.id, "bob@example.com", 10, key="k")

    again = await world.another_queue().post(bob_by_email)
    other = await world.another_queue().post(posting(world.ada.id, "@bob", 11, key="k"))

    assert isinstance(again.outcome, Replay)
    assert _transfer_id(again) == _transfer_id(first)
    assert again.credit_account is not None
    assert again.credit_account.username == "bob"
    assert refusals([other.outcome]) == [IdempotencyConflict]
    assert other.debit_account is None
    assert await world.balances() == (90, 10)


@pytest.mark.parametrize("place", [0, 7, 19])
async def test_a_value_that_no_database_can_hold_fails_alone(
    world: LedgerWorld, place: int
) -> None:
    """One invalid posting among twenty is refused; the others are written in order."""
    postings = [posting(world.ada.id, "@bob", 1 + number % 5) for number in range(20)]
    postings[place] = posting(world.ada.id, "@bob", 1, note="\ud800")

    answers = await post_all(world.queue, *postings)

    bad = answers.pop(place)
    assert isinstance(bad, PostingRefused)
    assert bad.detail == "The database cannot store a value of this transfer."
    amounts = [each.amount for each in postings if each.note is None]
    assert [answer.outcome.credit.amount for answer in answers] == amounts
    assert [entry.amount for entry in await world.entries(world.bob)] == amounts
    assert world.controlled.writes < 15
    await verify(world.database)


async def test_an_unexpected_error_fails_only_its_own_caller(world: LedgerWorld) -> None:
    """A posting from an account that does not exist raises for its caller only."""
    answers = await post_all(
        world.queue,
        posting(world.ada.id, "@bob"),
        posting("acct_missing", "@bob"),
        posting(world.ada.id, "@bob"),
    )

    assert isinstance(answers[1], KeyError)
    assert answers[1].args == ("acct_missing",)
    assert await world.balances() == (98, 2)


async def test_a_full_queue_refuses(world: LedgerWorld) -> None:
    """A posting beyond the limit is refused at once; those that wait are written."""
    narrow = world.another_queue(queue_limit=2)
    world.controlled.hold()
    writing = asyncio.create_task(narrow.post(posting(world.ada.id, "@bob")))
    await world.controlled.write_started.wait()
    waiting = [asyncio.create_task(narrow.post(posting(world.ada.id, "@bob"))) for _ in range(2)]
    await until(lambda: narrow.waiting_count == len(waiting))

    with pytest.raises(QueueFull) as refused:
        await narrow.post(posting(world.ada.id, "@bob"))
    world.controlled.release()
    await asyncio.gather(writing, *waiting)

    assert refused.value.detail == "Too many transfers are waiting to be written."
    assert refused.value.retry_after_seconds == 1
    assert await world.balances() == (97, 3)
    await narrow.post(posting(world.ada.id, "@bob"))
    assert await world.balances() == (96, 4)


async def test_closing_writes_the_waiting_postings(world: LedgerWorld) -> None:
    """A server that stops answers every caller; an idle queue closes at once."""
    await world.queue.close()
    tasks = [asyncio.create_task(world.queue.post(posting(world.ada.id, "@bob"))) for _ in range(5)]
    await asyncio.sleep(0)  # lets the tasks start
    await world.queue.close()

    assert await world.balances() == (95, 5)
    await asyncio.gather(*tasks)


async def test_an_unavailable_database_fails_only_the_current_batch(world: LedgerWorld) -> None:
    """Every caller of the batch gets the refusal; the next posting is written."""
    world.controlled.faults.append("away")

    answers = await post_all(world.queue, *(posting(world.ada.id, "@bob") for _ in range(3)))

    assert [type(answer) for answer in answers] == [DatabaseUnavailable] * 3
    assert world.controlled.writes == 1
    await world.queue.post(posting(world.ada.id, "@bob"))
    assert await world.balances() == (99, 1)


async def test_a_batch_that_fails_because_rows_are_locked_is_repeated(world: LedgerWorld) -> None:
    """Nothing was committed, so the postings are written by the next attempt."""
    world.controlled.faults.append("locked")

    answers = await post_all(world.queue, *(posting(world.ada.id, "@bob") for _ in range(3)))

    assert [type(answer.outcome) for answer in answers] == [Movement] * 3
    assert world.controlled.writes == 2
    assert await world.balances() == (97, 3)


async def test_two_queues_on_one_database_lose_nothing(world: LedgerWorld) -> None:
    """Two processes write to the same accounts at the same time, and the ledger balances."""
    queues = [PostingQueue(world.database, system_clock, queue_limit=1_000) for _ in range(2)]

    async def work(number: int) -> None:
        for _ in range(30):
            await asyncio.gather(
                queues[number].post(posting(world.ada.id, "@bob", 1)),
                queues[number].post(posting(world.bob.id, "@ada", 1)),
            )

    await asyncio.gather(work(0), work(1), work(0), work(1))

    assert sum(await world.balances()) == 100
    figures = await verify(world.database)
    assert figures.transfers == len(await world.entries(world.bob)) + 1


class RecordingNotices:
    """Records the notices: the id of each transfer, and the usernames of both accounts."""

    def __init__(self) -> None:
        self.written: list[tuple[str, str, str]] = []

    async def write(
        self,
        transaction: Transaction,
        movements: Sequence[Movement],
        involved: Mapping[str, Account],
    ) -> None:
        assert not transaction.follows_unknown_commit
        for each in movements:
            payer, payee = involved[each.debit.account_id], involved[each.credit.account_id]
            self.written.append((each.debit.transfer_id, payer.username, payee.username))


async def test_recipients_are_notified_of_money_that_has_moved(world: LedgerWorld) -> None:
    """A posting that was refused, or that does not ask for a notice, is not mentioned."""
    notices = RecordingNotices()
    queue = PostingQueue(world.database, system_clock, queue_limit=10, notices=notices)
    notified = posting(world.ada.id, "@bob", 1, notifies_recipient=True)

    await post_all(
        queue,
        posting(world.ada.id, "@bob", 1),
        notified,
        posting(world.ada.id, "@bob", 1_000, notifies_recipient=True),
    )
    await queue.post(posting(world.ada.id, "@bob", 1))
    await queue.post(posting(world.ada.id, "@bob", 1_000, notifies_recipient=True))

    assert notices.written == [(notified.transfer_id, "ada", "bob")]


def _transfer_id(answer: PostingResult) -> str:
    assert isinstance(answer.outcome, Movement | Replay)
    return answer.outcome.debit.transfer_id
