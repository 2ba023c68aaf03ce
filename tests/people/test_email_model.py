"""Who owns an email, as a model: whatever happens in whatever order, money follows its owner."""

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ousel.accounts.service import AccountService, IdentifierInUse, NewHolder, confirm_email
from ousel.accounts.verification import verify_identifiers
from ousel.database.port import Database
from ousel.kernel.clock import system_clock
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import Movement, Refused
from tests.ledger.examples import posting
from tests.support.accounts import person, unique_name, verify

pytestmark = pytest.mark.slow

PEOPLE = 3
EMAILS = 3


class Step(msgspec.Struct, frozen=True):
    """Somebody confirms an email, or somebody else sends money to it."""

    confirms: bool
    who: int
    email: int


steps = st.builds(
    Step, confirms=st.booleans(), who=st.integers(0, PEOPLE - 1), email=st.integers(0, EMAILS - 1)
)


class Model:
    """What the rule says: an email names whoever confirmed it first, until they confirm another."""

    def __init__(self) -> None:
        self._owners: dict[int, int] = {}
        self.received = [0] * PEOPLE

    def confirm(self, who: int, email: int) -> bool:
        """Give the email to this person, unless another one has it; return whether they have it."""
        if self._owners.get(email, who) != who:
            return False
        self._owners = {each: owner for each, owner in self._owners.items() if owner != who}
        self._owners[email] = who
        return True

    def send(self, email: int) -> int | None:
        """Return who receives money that is sent to this email."""
        owner = self._owners.get(email)
        if owner is not None:
            self.received[owner] += 1
        return owner


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=st.lists(steps, min_size=1, max_size=12))
async def test_money_follows_the_owner_of_an_email(database: Database, history: list[Step]) -> None:
    """Two processes send; neither remembers an owner that the email no longer has."""
    model, domain = Model(), f"{unique_name('d').replace('_', '')}.example"
    emails = [f"mail{number}@{domain}" for number in range(EMAILS)]
    payer = await person(database, unique_name(), "1")
    queues = [PostingQueue(database, system_clock, queue_limit=10) for _ in range(2)]
    people = [await _unconfirmed(database, emails[0]) for _ in range(PEOPLE)]

    for number, step in enumerate(history):
        if step.confirms:
            confirmed = await _confirm(database, people[step.who], emails[step.email])
            assert confirmed == model.confirm(step.who, step.email)
            continue
        outcome = (await queues[number % 2].post(posting(payer.id, emails[step.email], 1))).outcome
        owner = model.send(step.email)
        if owner is None:
            assert isinstance(outcome, Refused)
        else:
            assert isinstance(outcome, Movement)
            assert outcome.credit.account_id == people[owner]

    accounts = AccountService(database, system_clock)
    assert [(await accounts.get(each)).balance for each in people] == model.received
    await database.snapshot(verify_identifiers)
    await verify(database)
    for queue in queues:
        await queue.close()


async def _unconfirmed(database: Database, email: str) -> str:
    """Open an account that waits for an email, and return its id."""
    holder = NewHolder(
        username=unique_name(), email=email, display_name="Somebody", email_is_confirmed=False
    )
    return (await AccountService(database, system_clock).open(holder)).id


async def _confirm(database: Database, account_id: str, email: str) -> bool:
    """Give the email to the account; return whether it could be."""
    try:
        await database.write(lambda transaction: confirm_email(transaction, account_id, email))
    except IdentifierInUse:
        return False
    return True
