"""Charge rows: the charge is locked and marked as paid in the transaction of its posting."""

import asyncio
from collections.abc import Collection, Sequence

import pytest

from ousel.database.port import Transaction
from ousel.database.statements import Statement, Table
from ousel.kernel.clock import Clock, system_clock
from ousel.ledger.interfaces import ChargeLocks
from ousel.ledger.queue import PostingQueue
from ousel.ledger.refusals import InsufficientBalance
from ousel.ledger.rules import ChargeClosed, ClosedCharges, Movement, Posting, Refused
from tests.ledger.conftest import LedgerWorld
from tests.ledger.examples import posting, refusals
from tests.support.accounts import verify
from tests.support.controlled_database import UnexpectedError
from tests.support.postgres_proxy import Cut

TICKETS = Table("deployment", key=("name text",), columns=("value text",))
FOUND = Statement("tickets", "SELECT name, value FROM deployment WHERE name = ANY(:names)")
LOCKED = Statement(
    "tickets, locked",
    "SELECT name, value FROM deployment WHERE name = ANY(:names) ORDER BY name FOR UPDATE",
)
FREE_LOCKED = Statement("tickets that nobody has locked, locked", f"{LOCKED.text} SKIP LOCKED")


class Tickets:
    """The charges of these tests: a ticket is free, or has the id of the transfer that paid it."""

    def __init__(self) -> None:
        self.broken = False

    async def wait(self, transaction: Transaction, charge_id: str) -> None:
        await transaction.fetch(LOCKED, names=[charge_id])

    async def lock(
        self, transaction: Transaction, charge_ids: Collection[str], clock: Clock, *, waits: bool
    ) -> ChargeLocks:
        statement = LOCKED if waits else FREE_LOCKED
        rows = await transaction.fetch(statement, names=list(charge_ids))
        blocked = set(charge_ids) - {row[0] for row in rows}
        closed: ClosedCharges = {row[0]: "paid" for row in rows if row[1] != "free"}
        return ChargeLocks(clock(), closed, blocked)

    async def mark_paid(
        self, transaction: Transaction, payments: Sequence[Movement], now: int
    ) -> None:
        assert now > 0
        if self.broken:
            raise UnexpectedError
        rows = [(each.debit.charge_id, each.debit.transfer_id) for each in payments]
        await transaction.update(TICKETS, rows)


@pytest.fixture
async def tickets(world: LedgerWorld) -> Tickets:
    """Two free tickets."""
    free = [("one", "free"), ("two", "free")]
    await world.database.write(lambda transaction: transaction.insert(TICKETS, free))
    return Tickets()


@pytest.fixture
def ticket_queue(world: LedgerWorld, tickets: Tickets) -> PostingQueue:
    """A queue that sells the tickets."""
    return PostingQueue(world.controlled, system_clock, queue_limit=1_000, charge_rows=tickets)


async def read_tickets(world: LedgerWorld) -> dict[str, str]:
    """Return for each ticket "free" or the id of its transfer."""
    rows = await world.database.read(
        lambda transaction: transaction.fetch(FOUND, names=["one", "two"])
    )
    return {row[0]: row[1] for row in rows}


def payment(world: LedgerWorld, ticket: str, amount: int = 10, key: str | None = None) -> Posting:
    return posting(world.ada.id, "@bob", amount, key=key, charge_id=ticket)


async def test_a_charge_is_marked_when_the_money_moves(
    world: LedgerWorld, ticket_queue: PostingQueue
) -> None:
    """Of several payments, one moves money; all others get ChargeClosed or their own refusal."""
    payments = [
        payment(world, "one", 1_000),
        payment(world, "one"),
        payment(world, "one"),
        payment(world, "two"),
    ]

    answers = await asyncio.gather(*(ticket_queue.post(each) for each in payments))
    another = PostingQueue(world.controlled, system_clock, queue_limit=10, charge_rows=Tickets())
    late = await another.post(payment(world, "one"))

    outcomes = [each.outcome for each in (*answers, late)]
    assert [type(each) for each in outcomes] == [
        Refused,
        Movement,
        ChargeClosed,
        Movement,
        ChargeClosed,
    ]
    assert refusals(outcomes)[0] is InsufficientBalance
    assert await read_tickets(world) == {
        "one": payments[1].transfer_id,
        "two": payments[3].transfer_id,
    }
    assert await world.balances() == (80, 20)
    assert world.controlled.writes == 2


async def test_payments_and_transfers_share_a_transaction(
    world: LedgerWorld, ticket_queue: PostingQueue
) -> None:
    """A batch may contain both postings that pay a charge and others."""
    answers = await asyncio.gather(
        ticket_queue.post(payment(world, "one")),
        ticket_queue.post(posting(world.ada.id, "@bob", 10)),
        ticket_queue.post(payment(world, "two")),
    )

    assert [type(answer.outcome) for answer in answers] == [Movement] * 3
    assert world.controlled.writes == 1
    assert await world.balances() == (70, 30)


async def test_several_queues_pay_one_charge_once(world: LedgerWorld, tickets: Tickets) -> None:
    """If several processes try to pay a charge, exactly one payment moves money."""
    queues = [
        PostingQueue(world.controlled, system_clock, queue_limit=10, charge_rows=tickets)
        for _ in range(4)
    ]

    answers = await asyncio.gather(*(each.post(payment(world, "one")) for each in queues))

    assert sorted(type(answer.outcome).__name__ for answer in answers) == [
        *["ChargeClosed"] * 3,
        "Movement",
    ]
    assert await world.balances() == (90, 10)
    await verify(world.database)


@pytest.mark.parametrize("key", ["k", None])
@pytest.mark.parametrize("cut", ["before the commit", "after the commit"])
async def test_a_payment_survives_a_lost_commit(
    world: LedgerWorld, ticket_queue: PostingQueue, cut: Cut, key: str | None
) -> None:
    """Whether or not the commit took effect, the charge is paid once and answered so."""
    world.controlled.faults.append(cut)
    wanted = payment(world, "one", key=key)

    answer = await ticket_queue.post(wanted)

    assert isinstance(answer.outcome, Movement)
    assert (await read_tickets(world))["one"] == wanted.transfer_id
    assert await world.balances() == (90, 10)


async def test_no_money_moves_if_a_charge_cannot_be_marked(
    world: LedgerWorld, tickets: Tickets, ticket_queue: PostingQueue
) -> None:
    """The payment and the charge's new status are written together or not at all."""
    tickets.broken = True

    broken, other = await asyncio.gather(
        ticket_queue.post(payment(world, "one")),
        ticket_queue.post(posting(world.ada.id, "@bob", 1)),
        return_exceptions=True,
    )

    assert isinstance(broken, UnexpectedError)
    assert not isinstance(other, BaseException)
    assert await read_tickets(world) == {"one": "free", "two": "free"}
    assert await world.balances() == (99, 1)


async def test_a_queue_without_charge_rows_pays_no_charge(
    world: LedgerWorld, tickets: Tickets
) -> None:
    """If nothing could mark the charge as paid, no money moves."""
    answer = await world.queue.post(payment(world, "one"))

    assert answer.outcome == ChargeClosed(None)
    assert not tickets.broken
    assert await world.balances() == (100, 0)
