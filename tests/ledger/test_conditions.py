"""Conditions: what a posting claims is locked, taken and written in its own transaction."""

import asyncio
from collections.abc import Sequence

import pytest

from ousel.database.port import Transaction
from ousel.database.statements import Statement, Table
from ousel.kernel.errors import InvalidField, Refusal
from ousel.ledger.rules import Claim, Closed, Movement, Posting
from tests.ledger.conftest import Desk
from tests.ledger.databases import Breakdown
from tests.ledger.examples import claiming, posting, refusals
from tests.support.accounts import verify
from tests.support.postgres_proxy import Cut

TICKETS = Table("deployment", key=("name text",), columns=("value text",))
FOUND = Statement("tickets", "SELECT name, value FROM deployment WHERE name = ANY(:names)")
LOCKED = Statement(
    "tickets, locked",
    "SELECT name, value FROM deployment WHERE name = ANY(:names) ORDER BY name FOR UPDATE",
)


def taken() -> Refusal:
    return InvalidField("The ticket is taken.")


def claims(wish: Posting) -> str:
    assert wish.claim is not None
    return wish.claim.name


class Tickets:
    """Tickets that can be had once; the table tells which transfer took each."""

    def __init__(self) -> None:
        self.tickets: dict[str, str] = {}
        self.broken = False

    async def admit(
        self, transaction: Transaction, postings: Sequence[Posting], now: int
    ) -> Closed:
        assert now > 0
        self.tickets |= {wish.transfer_id: claims(wish) for wish in postings}
        rows = await transaction.fetch(LOCKED, names=[claims(wish) for wish in postings])
        return {row[0]: taken for row in rows if row[1] != "free"}

    async def settle(self, transaction: Transaction, moved: Sequence[Movement], now: int) -> None:
        assert now > 0
        if self.broken:
            raise Breakdown
        rows = [(self.tickets[each.debit.transfer_id], each.debit.transfer_id) for each in moved]
        await transaction.update(TICKETS, rows)


@pytest.fixture
async def tickets(queue: Desk) -> Tickets:
    """Two tickets that nobody has yet."""
    free = [("one", "free"), ("two", "free")]
    await queue.database.write(lambda transaction: transaction.insert(TICKETS, free))
    return Tickets()


async def holders(queue: Desk) -> dict[str, str]:
    """Return who has each ticket."""
    rows = await queue.database.read(
        lambda transaction: transaction.fetch(FOUND, names=["one", "two"])
    )
    return {row[0]: row[1] for row in rows}


def wish(queue: Desk, ticket: str, amount: int = 10, key: str | None = None) -> Posting:
    return claiming(Claim(ticket, taken), posting(queue.ada.id, "@bob", amount, key=key))


async def test_a_claim_is_taken_with_the_money(queue: Desk, tickets: Tickets) -> None:
    """Of those who come together one pays and takes; whoever comes later is told."""
    wishes = [wish(queue, "one", 1_000), wish(queue, "one"), wish(queue, "one"), wish(queue, "two")]

    answers = await asyncio.gather(*(queue.queue.post(each, tickets) for each in wishes))
    late = await queue.another().post(wish(queue, "one"), Tickets())

    told = [kind and kind.code for kind in refusals([each.outcome for each in (*answers, late)])]
    assert told == ["insufficient_balance", None, "invalid_field", None, "invalid_field"]
    assert await holders(queue) == {"one": wishes[1].transfer_id, "two": wishes[3].transfer_id}
    assert await queue.balances() == (80, 20)
    assert queue.staged.writes == 2


async def test_postings_with_and_without_a_claim_share_a_transaction(
    queue: Desk, tickets: Tickets
) -> None:
    """Two kinds of condition and none at all, in one batch."""
    others = Tickets()

    answers = await asyncio.gather(
        queue.queue.post(wish(queue, "one"), tickets),
        queue.queue.post(posting(queue.ada.id, "@bob", 10)),
        queue.queue.post(wish(queue, "two"), others),
    )

    assert [type(answer.outcome) for answer in answers] == [Movement] * 3
    assert queue.staged.writes == 1
    assert await queue.balances() == (70, 30)


async def test_two_desks_race_for_one_claim(queue: Desk, tickets: Tickets) -> None:
    """As two processes do: exactly one takes it."""
    assert not tickets.tickets
    desks = [queue.another() for _ in range(4)]

    answers = await asyncio.gather(*(each.post(wish(queue, "one"), Tickets()) for each in desks))

    assert sorted(type(answer.outcome).__name__ for answer in answers) == [
        "Movement",
        *["Refused"] * 3,
    ]
    assert await queue.balances() == (90, 10)
    await verify(queue.database)


@pytest.mark.parametrize("key", ["k", None])
@pytest.mark.parametrize("cut", ["before the commit", "after the commit"])
async def test_a_claim_outlives_a_lost_commit(
    queue: Desk, tickets: Tickets, cut: Cut, key: str | None
) -> None:
    """Whether the commit took effect or not: paid once, taken once, and told so."""
    queue.staged.faults.append(cut)
    wanted = wish(queue, "one", key=key)

    answer = await queue.queue.post(wanted, tickets)

    assert isinstance(answer.outcome, Movement)
    assert (await holders(queue))["one"] == wanted.transfer_id
    assert await queue.balances() == (90, 10)


async def test_a_condition_that_breaks_takes_the_money_back(queue: Desk, tickets: Tickets) -> None:
    """What follows from a payment and the payment itself are written together or not at all."""
    tickets.broken = True

    broken, other = await asyncio.gather(
        queue.queue.post(wish(queue, "one"), tickets),
        queue.queue.post(posting(queue.ada.id, "@bob", 1)),
        return_exceptions=True,
    )

    assert isinstance(broken, Breakdown)
    assert not isinstance(other, BaseException)
    assert await holders(queue) == {"one": "free", "two": "free"}
    assert await queue.balances() == (99, 1)


async def test_a_claim_needs_its_condition(queue: Desk, tickets: Tickets) -> None:
    """A claim that nobody would check, or a condition without a claim, is a defect."""
    with pytest.raises(AssertionError):
        await queue.queue.post(wish(queue, "one"))
    with pytest.raises(AssertionError):
        await queue.queue.post(posting(queue.ada.id, "@bob"), tickets)
