"""The idempotency rule as a model: whatever is sent in whatever order, HTTP answers by it."""

import secrets

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ousel.ledger.rules import Account
from tests.support.accounts import verify
from tests.support.world import PartnerClient, World

FUNDS = 5_000_000
AMOUNTS = {"1": 1_000_000, "1.0": 1_000_000, "10e-1": 1_000_000, "2.5": 2_500_000, "9": 9_000_000}


class Attempt(msgspec.Struct, frozen=True):
    """One request as a partner might make it, right or wrong."""

    key: str | None
    in_header: bool
    recipient: int  # which of two people; 2 for nobody
    form: int  # by which of the three identifiers
    amount: str
    note: str | None


attempts = st.builds(
    Attempt,
    key=st.sampled_from([None, "a", "b"]),
    in_header=st.booleans(),
    recipient=st.sampled_from([0, 0, 0, 1, 2]),
    form=st.integers(0, 2),
    amount=st.sampled_from(list(AMOUNTS)),
    note=st.sampled_from([None, "x"]),
)


class Model:
    """What the rule says: a key binds the first transfer that happened, and nothing else."""

    def __init__(self) -> None:
        self.balance = FUNDS
        self.received = [0, 0]
        self._bound: dict[str, tuple[int, int, str | None]] = {}

    def expects(self, attempt: Attempt) -> tuple[int, str | None]:
        """Return the status and the code that the attempt must get."""
        amount = AMOUNTS[attempt.amount]
        request = (attempt.recipient, amount, attempt.note)
        if attempt.key in self._bound:
            same = self._bound[attempt.key] == request
            return (200, None) if same else (409, "idempotency_conflict")
        if attempt.recipient == len(self.received):
            return 404, "account_not_found"
        if amount > self.balance:
            return 400, "insufficient_balance"
        self.balance -= amount
        self.received[attempt.recipient] += amount
        if attempt.key is not None:
            self._bound[attempt.key] = request
        return 201, None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=st.lists(attempts, min_size=1, max_size=10))
async def test_every_history_of_requests_is_answered_by_the_rule(
    world: World, history: list[Attempt]
) -> None:
    """First 201, then 200 for the same and 409 for another; a refusal leaves the key free."""
    model = Model()
    people = [await world.person(), await world.person()]

    async with world.partner("5") as sender:
        for attempt in history:
            answer = await _made(sender, attempt, people)
            assert answer == model.expects(attempt), attempt

    assert await world.balance(sender.account) == model.balance
    assert [await world.balance(person) for person in people] == model.received


async def test_the_books_balance_after_all_these_histories(world: World) -> None:
    """Whatever was tried, entries and balances still agree."""
    await verify(world.database)


async def _made(
    sender: PartnerClient, attempt: Attempt, people: list[Account]
) -> tuple[int, str | None]:
    body: dict[str, object] = {"to": _name(attempt, people)}
    if attempt.note is not None:
        body["note"] = attempt.note
    if attempt.key is not None and not attempt.in_header:
        body["idempotency_key"] = attempt.key
    text = msgspec.json.encode({**body, "amount": msgspec.Raw(attempt.amount.encode())})
    answer = await sender.send(text, attempt.key if attempt.in_header else None)
    return answer.status_code, answer.json().get("code")


def _name(attempt: Attempt, people: list[Account]) -> str:
    if attempt.recipient == len(people):
        return f"@{secrets.token_hex(8)}"
    person = people[attempt.recipient]
    forms = (f"@{person.username}", f"{person.username}@Example.com", person.account_number)
    return forms[attempt.form]
