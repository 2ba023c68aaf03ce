"""On random histories, the real ledger and a simple model of it always agree."""

import asyncio
from collections.abc import Coroutine
from typing import Any, NamedTuple, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from typing_extensions import override

from ousel.database.addresses import database_at
from ousel.kernel.ids import new_id
from ousel.ledger import journal
from ousel.ledger.batch import PostingResult
from ousel.ledger.history import HistoryQuery, page_of_entries
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import (
    SYSTEM_ACCOUNT_ID,
    Account,
    Kind,
    Movement,
    Posting,
    Refused,
    Replay,
    Status,
)
from tests.faults.sizes import sized
from tests.ledger.model import Model, ModelEntry
from tests.support.accounts import person, verify
from tests.support.clock import ManualClock
from tests.support.controlled_database import ControlledDatabase
from tests.support.postgres_proxy import Cut

pytestmark = pytest.mark.slow

STEPS = 25
SYSTEM = "the system account, which has no identifier"
EXAMPLES = {"sqlite": sized(30, 60), "postgresql": sized(15, 30), "citus": 5}

Result = TypeVar("Result")


class Request(NamedTuple):
    """A request without its sender and recipient."""

    amount: int
    key: str | None
    note: str | None


amounts = st.one_of(st.integers(1, 60), st.integers(1, 10**15))
requests = st.builds(
    Request,
    amounts,
    st.sampled_from([None, None, "k1", "k2", "k3"]),
    st.sampled_from([None, "Tea", "Ünï ☃"]),
)
cuts_at_random: st.SearchStrategy[list[Cut]] = st.lists(
    st.sampled_from(["before the commit", "after the commit"]), max_size=2
)
faults: st.SearchStrategy[list[Cut]] = st.just([]) | cuts_at_random


class LedgerMachine(RuleBasedStateMachine):
    """Runs each step on a real database and on the model.

    All histories of an engine use one database. Each opens its own accounts, and they share only
    the system account.
    """

    url = ""
    people_opened = 0
    model_of_the_system = Model()

    accounts = Bundle[str]("accounts")
    postings = Bundle[Posting]("postings")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.database = database_at(self.url)
        self.run(self.database.open())
        self.clock = ManualClock()
        self.model = Model()
        self.model.accounts[SYSTEM_ACCOUNT_ID] = self.model_of_the_system.accounts[
            SYSTEM_ACCOUNT_ID
        ]
        self.model.keys = self.model_of_the_system.keys
        self.people: dict[str, Account] = {}
        self.queue: PostingQueue

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.runner.run(work)

    @override
    def teardown(self) -> None:
        self.run(verify(self.database))
        for account_id in self.people:
            assert self.run(self._entries(account_id)) == self.model.accounts[account_id].entries
        self.run(self.database.close())
        self.runner.close()

    @initialize(target=accounts)
    def begin(self) -> Any:
        self.controlled = ControlledDatabase(self.database)
        self.restart_the_server()
        return multiple(*(self.open_account() for _ in range(3)))

    @rule()
    def restart_the_server(self) -> None:
        """Forget everything that is not in the database."""
        self.queue = PostingQueue(self.controlled, self.clock, queue_limit=1_000)

    @rule(target=accounts)
    def open_account(self) -> str:
        type(self).people_opened += 1
        name = f"person_{self.people_opened}"
        account = self.run(person(self.database, name, clock=self.clock))
        self.people[account.id] = account
        names = (f"@{name}", f"{name}@example.com", account.account_number)
        self.model.open(account.id, names)
        return account.id

    @rule(target=postings, to=accounts, request=requests, cuts=faults)
    def fund(self, to: str, request: Request, cuts: list[Cut]) -> Posting:
        key = request.key and f"{to}-{request.key}"
        wanted = request._replace(key=key)
        number = self.people[to].account_number
        return self.play([self.new_posting(SYSTEM_ACCOUNT_ID, number, wanted, "funding")], cuts)

    @rule(target=postings, sender=accounts, request=requests, cuts=faults)
    def redeem(self, sender: str, request: Request, cuts: list[Cut]) -> Posting:
        return self.play([self.new_posting(sender, SYSTEM, request, "redemption")], cuts)

    @rule(
        target=postings,
        sender=accounts,
        to=st.one_of(accounts, st.none()),
        form=st.integers(0, 2),
        request=requests,
        cuts=faults,
    )
    def transfer(
        self, sender: str, to: str | None, form: int, request: Request, cuts: list[Cut]
    ) -> Posting:
        return self.play([self.new_posting(sender, self.identifier(to, form), request)], cuts)

    @rule(earlier=postings, cuts=faults)
    def retry(self, earlier: Posting, cuts: list[Cut]) -> None:
        """Repeat a request: with a key it is replayed, without one it moves money again."""
        self.play([self.again(earlier, earlier.amount)], cuts)

    @rule(earlier=postings, amount=amounts)
    def reuse_the_key(self, earlier: Posting, amount: int) -> None:
        self.play([self.again(earlier, amount)], [])

    @rule(earlier=st.lists(postings, min_size=2, max_size=6), cuts=faults)
    def many_at_once(self, earlier: list[Posting], cuts: list[Cut]) -> None:
        """Repeat several requests in one batch."""
        self.play([self.again(each, each.amount) for each in earlier], cuts)

    @rule(account=accounts, frozen=st.booleans())
    def freeze_or_unfreeze(self, account: str, *, frozen: bool) -> None:
        status: Status = "frozen" if frozen else "active"
        self.run(self.database.write(lambda each: journal.set_status(each, account, status)))
        self.model.accounts[account].frozen = frozen

    @rule(micros=st.integers(-1_000, 5_000))
    def let_time_pass(self, micros: int) -> None:
        """Move the clock, sometimes backwards."""
        self.clock.advance(micros=micros)

    @invariant()
    def balances_and_counts_agree(self) -> None:
        real = self.run(self._accounts())
        for account_id, account in real.items():
            model = self.model.accounts[account_id]
            assert account.balance == model.balance
            assert account.sequence == len(model.entries)
            assert (account.status == "frozen") == model.frozen

    def play(self, postings: list[Posting], cuts: list[Cut]) -> Posting:
        """Post all at once on both; the outcomes must be the same."""
        expected = [self.model.post(each) for each in postings]
        self.controlled.faults.extend(cuts)
        answers = self.run(self._post_all(postings))
        self.controlled.faults.clear()
        assert [self.describe(answer) for answer in answers] == expected
        return postings[0]

    def describe(self, answer: PostingResult) -> tuple[str, str]:
        match answer.outcome:
            case Refused(refusal=refusal):
                return refusal.code, refusal.members.get("transfer_id", "")
            case Replay(debit=debit):
                return "replayed", debit.transfer_id
            case Movement(debit=debit):
                return "moved", debit.transfer_id
            case other:
                raise AssertionError(f"no posting of these tests comes out as {other}")

    def identifier(self, account_id: str | None, form: int) -> str:
        if account_id is None:
            return "@nobody"
        person = self.people[account_id]
        return (f"@{person.username}", f"{person.username}@example.com", person.account_number)[
            form
        ]

    def again(self, earlier: Posting, amount: int) -> Posting:
        request = Request(amount, earlier.idempotency_key, earlier.note)
        to = earlier.credit_identifier or SYSTEM
        return self.new_posting(earlier.debit_account_id, to, request, earlier.kind)

    def new_posting(
        self, sender: str, identifier: str, request: Request, kind: Kind = "transfer"
    ) -> Posting:
        return Posting(
            transfer_id=new_id("tr_", self.clock),
            kind=kind,
            debit_account_id=sender,
            credit_account_id=SYSTEM_ACCOUNT_ID if identifier == SYSTEM else None,
            credit_identifier=None if identifier == SYSTEM else identifier,
            amount=request.amount,
            note=request.note,
            idempotency_key=request.key,
        )

    async def _post_all(self, postings: list[Posting]) -> list[PostingResult]:
        return await asyncio.gather(*(self.queue.post(each) for each in postings))

    async def _accounts(self) -> dict[str, Account]:
        wanted = [SYSTEM_ACCOUNT_ID, *self.people]
        return await self.database.read(lambda each: journal.accounts_by_id(each, wanted))

    async def _entries(self, account_id: str) -> list[ModelEntry]:
        query = HistoryQuery(account_id=account_id, limit=1_000)
        found = await self.database.read(lambda each: page_of_entries(each, query))
        assert [entry.sequence for entry, _ in found] == list(range(len(found), 0, -1))
        return [
            ModelEntry(entry.transfer_id, entry.amount, entry.balance_after, other.id, entry.note)
            for entry, other in reversed(found)
        ]


def test_the_ledger_agrees_with_its_model(database_url: str, engine: str) -> None:
    """Transfers, redemptions, retries, conflicts, freezes and lost commits, in any order."""

    class Machine(LedgerMachine):
        url = database_url
        model_of_the_system = Model()

    run_state_machine_as_test(
        Machine,
        settings=settings(max_examples=EXAMPLES[engine], stateful_step_count=STEPS, deadline=None),
    )
