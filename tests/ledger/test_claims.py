"""Claims: what one posting takes, no other may take after it; and refusals are let go of."""

import asyncio
import gc
import weakref

import pytest

from ousel.database.port import Database, Result, Work
from ousel.kernel.clock import system_clock
from ousel.kernel.errors import DatabaseUnavailable, Refusal
from ousel.ledger.posting import PostingDesk
from ousel.ledger.refusals import InsufficientBalance, PostingRefused
from ousel.ledger.rules import (
    FIRST_HASH,
    Account,
    Claim,
    Closed,
    Moved,
    Posting,
    Refused,
    Replayed,
    decide,
)


class Taken(PostingRefused):
    """What those are told who come too late in these tests."""


def account(name: str, balance: int) -> Account:
    """Return an account with this balance."""
    return Account(name, name, name, name, "active", balance, 0, FIRST_HASH, 0, 0)


def posting(number: int, amount: int, claim: str | None, key: str | None = None) -> Posting:
    """Return a posting from ada to grace that takes this claim."""
    return Posting(
        transfer_id=f"tr_{number}",
        kind="charge_payment",
        debit_account_id="ada",
        credit_identifier="@grace",
        amount=amount,
        idempotency_key=key,
        claim=None if claim is None else Claim(claim, lambda: Taken(f"{claim} is taken.")),
    )


def decided(*postings: Posting, closed: Closed | None = None) -> list[str]:
    """Return how the postings come out, in words."""
    accounts = {"ada": account("ada", 100), "grace": account("grace", 0)}
    outcomes = decide(postings, accounts, {"@grace": "grace"}, {}, 1, closed)
    return [
        type(each.refusal).__name__ if isinstance(each, Refused) else type(each).__name__
        for each in outcomes
    ]


def test_the_first_takes_the_claim() -> None:
    """Of several postings with one claim the first that can move moves; claims do not mix."""
    words = decided(
        posting(1, 101, "a"),
        posting(2, 10, "a"),
        posting(3, 10, "a"),
        posting(4, 10, "b"),
        posting(5, 10, None),
        posting(6, 10, None),
    )

    moved = Moved.__name__
    assert words == [InsufficientBalance.__name__, moved, Taken.__name__, moved, moved, moved]


def test_a_closed_claim_is_refused_with_its_reason() -> None:
    """What was closed before is told before the balance is looked at."""
    closed: Closed = {"a": lambda: PostingRefused("closed before")}

    words = decided(posting(1, 1_000, "a"), posting(2, 1, "b"), closed=closed)

    assert words == [PostingRefused.__name__, Moved.__name__]
    assert set(closed) == {"a", "b"}


def test_a_known_key_is_replayed_whatever_became_of_its_claim() -> None:
    """The same posting under the same key is the first one again, not one too late."""
    words = decided(posting(1, 10, "a", key="k"), posting(2, 10, "a", key="k"))

    assert words == [Moved.__name__, Replayed.__name__]


LETTING_GO_STEPS = 200


class Unreachable:
    """A database that cannot be reached."""

    async def write(self, work: Work[Result]) -> Result:
        raise DatabaseUnavailable(f"{work} cannot be done")


@pytest.mark.parametrize("reachable", [True, False])
async def test_a_refusal_is_let_go_of(database: Database, *, reachable: bool) -> None:
    """A refusal that was raised and answered leaves no memory behind."""
    desk = PostingDesk(
        database if reachable else Unreachable(),  # type: ignore[arg-type]
        system_clock,
        queue_limit=1,
    )
    told: list[weakref.ref[Refusal]] = []

    async def refused() -> None:
        try:
            posted = await desk.post(
                Posting(
                    transfer_id="tr_1",
                    kind="transfer",
                    debit_account_id="acct_00000000000000000000000000",
                    credit_identifier="@nobody",
                    amount=1,
                )
            )
            assert isinstance(posted.outcome, Refused)
            raise posted.outcome.refusal
        except Refusal as refusal:
            told.append(weakref.ref(refusal))

    await refused()
    await desk.close()
    # This very step was woken by the answer and holds it, and so does the writer's thread a while.
    for _ in range(LETTING_GO_STEPS):
        await asyncio.sleep(0.01)
        gc.collect()
        if told[0]() is None:
            break

    assert [reference() for reference in told] == [None]
