"""Whatever is late or lost: no posting begins to commit after its deadline."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from ousel.database.addresses import database_at
from ousel.database.port import Database, Result, Transaction, Work
from ousel.kernel.clock import system_clock
from ousel.kernel.deadlines import check_deadline, set_deadline
from ousel.kernel.errors import DeadlineExceeded, OutcomeUnknown
from ousel.kernel.ids import new_id
from ousel.ledger.batch import PostingResult
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import Account, Movement, Posting, Refused
from tests.support.accounts import person, verify
from tests.support.controlled_database import ControlledDatabase
from tests.support.engines import Engine, Engines
from tests.support.loop_time import LoopTime
from tests.support.postgres_proxy import Cut
from tests.support.raw_sql import RawSql

EXAMPLES = 40

pytestmark = pytest.mark.slow


class Attempt(NamedTuple):
    """How much time passes before an attempt's commit is sent, and how its answer is lost."""

    seconds: int
    cut: Cut | None


attempts_at_random = st.lists(
    st.builds(
        Attempt,
        st.sampled_from([0, 0, 0, 5, 20]),
        st.sampled_from([None, None, "before the commit", "after the commit"]),
    ),
    max_size=5,
)
deadlines_at_random = st.lists(st.integers(1, 40), min_size=1, max_size=6)


class ObservedDatabase(ControlledDatabase):
    """Notes when the commit of each transfer began first."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.begun: dict[str, float] = {}

    @override
    async def write(
        self,
        work: Work[Result],
        *,
        before_commit: Callable[[], None] | None = None,
        **options: Any,
    ) -> Result:
        results: list[Any] = []

        async def observed(transaction: Transaction) -> Result:
            result: Any = await work(transaction)
            results[:] = result
            return result  # type: ignore[no-any-return]

        def begin() -> None:
            (before_commit or check_deadline)()
            for result in results:
                if isinstance(result.outcome, Movement):
                    now = asyncio.get_running_loop().time()
                    self.begun.setdefault(result.outcome.debit.transfer_id, now)

        return await super().write(observed, before_commit=begin, **options)


async def check_rule(
    url: str, names: Iterator[str], deadlines: list[int], attempts: list[Attempt]
) -> None:
    """Post with these deadlines, in seconds from now, and check when each commit began."""
    database = database_at(url)
    await database.open()
    try:
        ada, bob = await person(database, next(names), "1"), await person(database, next(names))
        observed = ObservedDatabase(database)
        time = LoopTime()
        observed.faults.extend(each.cut for each in attempts)
        observed.actions_before_commit += [partial(time.advance, each.seconds) for each in attempts]
        queue = PostingQueue(observed, system_clock, queue_limit=100)
        postings = [_posting(ada, bob) for _ in deadlines]
        limits = [time.now() + each for each in deadlines]
        answers = await asyncio.gather(
            *(_post(queue, *each) for each in zip(postings, limits, strict=True)),
            return_exceptions=True,
        )
        async with RawSql(url) as raw_sql:
            rows = await raw_sql.run("SELECT transfer_id FROM entries WHERE account_id = ?", bob.id)
        moved = [row[0] for row in rows]

        assert len(moved) == len(set(moved))
        for posting, limit, answer in zip(postings, limits, answers, strict=True):
            if posting.transfer_id in moved:
                assert observed.begun[posting.transfer_id] < limit
            if not isinstance(answer, OutcomeUnknown):
                assert _is_moved(answer) == (posting.transfer_id in moved)
        await verify(database)
    finally:
        await database.close()


async def _post(queue: PostingQueue, posting: Posting, deadline: float) -> PostingResult:
    set_deadline(deadline)
    return await queue.post(posting)


def _posting(ada: Account, bob: Account) -> Posting:
    return Posting(
        transfer_id=new_id("tr_", system_clock),
        kind="transfer",
        debit_account_id=ada.id,
        credit_account_id=bob.id,
        amount=1,
    )


def _is_moved(answer: PostingResult | BaseException) -> bool:
    """Return whether the answer says that money moved; if not, it must say that it is too late."""
    if isinstance(answer, PostingResult) and isinstance(answer.outcome, Movement):
        return True
    refusal = answer
    if isinstance(answer, PostingResult) and isinstance(answer.outcome, Refused):
        refusal = answer.outcome.refusal
    assert isinstance(refusal, DeadlineExceeded), answer
    return False


def test_no_commit_begins_after_a_deadline(
    engines: Engines, engine: Engine, tmp_path: Path
) -> None:
    """A posting moves only if its commit began before its deadline; the answers say the truth."""
    url = engines.fresh_url(engine, tmp_path)
    names = (f"person{number}" for number in range(10_000))

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(deadlines_at_random, attempts_at_random)
    def examples(deadlines: list[int], attempts: list[Attempt]) -> None:
        asyncio.run(check_rule(url, names, sorted(deadlines), attempts))

    examples()
    engines.give_back(url)
