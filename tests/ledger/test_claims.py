"""Claims: what one posting takes, no other may take after it; and refusals are let go of."""

import asyncio
import gc
import weakref

import pytest

from ousel.database.port import Database, Result, Work
from ousel.kernel.clock import system_clock
from ousel.kernel.errors import DatabaseUnavailable, Refusal
from ousel.ledger.posting import PostingQueue
from ousel.ledger.refusals import InsufficientBalance, PostingRefused
from ousel.ledger.rules import SYSTEM_ACCOUNT_ID, Claim, Movement, Posting, Refused, Replay
from tests.ledger.examples import Books, account, claiming, posting, refusals


class Taken(PostingRefused):
    """What those are told who come too late in these tests."""


def wish(amount: int, claim: str | None, key: str | None = None) -> Posting:
    """Return a posting from ada to grace that takes this claim."""
    wanted = posting("ada", "@grace", amount, key=key)
    if claim is None:
        return wanted
    return claiming(Claim(claim, lambda: Taken(f"{claim} is taken.")), wanted)


def books() -> Books:
    """Return books in which ada has 100."""
    return Books(account("ada", 100), account("grace"))


def test_the_first_takes_the_claim() -> None:
    """Of several postings with one claim the first that can move moves; claims do not mix."""
    outcomes = books().decide(
        wish(101, "a"),
        wish(10, "a"),
        wish(10, "a"),
        wish(10, "b"),
        wish(10, None),
        wish(10, None),
    )

    assert refusals(outcomes) == [InsufficientBalance, None, Taken, None, None, None]


def test_a_closed_claim_is_refused_with_its_reason() -> None:
    """What was closed before is told before the balance is looked at."""
    before = books()
    before.closed["a"] = lambda: PostingRefused("closed before")

    outcomes = before.decide(wish(1_000, "a"), wish(1, "b"))

    assert refusals(outcomes) == [PostingRefused, None]
    assert set(before.closed) == {"a", "b"}


def test_a_known_key_is_replayed_whatever_became_of_its_claim() -> None:
    """The same posting under the same key is the first one again, not one too late."""
    outcomes = books().decide(wish(10, "a", key="k"), wish(10, "a", key="k"))

    assert [type(each) for each in outcomes] == [Movement, Replay]


LETTING_GO_STEPS = 200


class Unreachable:
    """A database that cannot be reached."""

    async def write(self, work: Work[Result]) -> Result:
        raise DatabaseUnavailable(f"{work} cannot be done")


@pytest.mark.parametrize("reachable", [True, False])
async def test_a_refusal_is_let_go_of(database: Database, *, reachable: bool) -> None:
    """A refusal that was raised and answered leaves no memory behind."""
    queue = PostingQueue(
        database if reachable else Unreachable(),  # type: ignore[arg-type]
        system_clock,
        queue_limit=1,
    )
    told: list[weakref.ref[Refusal]] = []

    async def refused() -> None:
        try:
            posted = await queue.post(posting(SYSTEM_ACCOUNT_ID, "@nobody"))
            assert isinstance(posted.outcome, Refused)
            raise posted.outcome.refusal
        except Refusal as refusal:
            told.append(weakref.ref(refusal))

    await refused()
    await queue.close()
    # This very step was woken by the answer and holds it, and so does the writer's thread a while.
    for _ in range(LETTING_GO_STEPS):
        await asyncio.sleep(0.01)
        gc.collect()
        if told[0]() is None:
            break

    assert [reference() for reference in told] == [None]
