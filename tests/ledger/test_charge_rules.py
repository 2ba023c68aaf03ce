"""Charges in the rules: a charge is paid once."""

from ousel.ledger.refusals import InsufficientBalance
from ousel.ledger.rules import (
    ChargeClosed,
    Movement,
    Posting,
    Replay,
)
from tests.ledger.examples import MemoryLedger, account, posting, refusals


def payment(amount: int, charge_id: str | None, key: str | None = None) -> Posting:
    """Return a posting from ada to grace that pays this charge."""
    return posting("ada", "@grace", amount, key=key, charge_id=charge_id)


def ledger_with_charges(**closed: str | None) -> MemoryLedger:
    """Return a ledger in which ada has 100 and these charges are closed."""
    ledger = MemoryLedger(account("ada", 100), account("grace"))
    ledger.charges = closed
    return ledger


def test_the_first_payment_closes_the_charge() -> None:
    """Only the first possible payment of a charge moves money; other charges are not affected."""
    outcomes = ledger_with_charges().decide(
        payment(101, "a"),
        payment(10, "a"),
        payment(10, "a"),
        payment(10, "b"),
        payment(10, None),
        payment(10, None),
    )

    assert refusals(outcomes) == [InsufficientBalance, None, None, None, None, None]
    assert [type(each) for each in outcomes[1:]] == [Movement, ChargeClosed, *[Movement] * 3]
    assert outcomes[2] == ChargeClosed("paid")


def test_a_closed_charge_is_reported_before_an_insufficient_balance() -> None:
    """A payment of a charge that is final, or that does not exist, moves nothing."""
    before = ledger_with_charges(a="canceled", c=None)

    outcomes = before.decide(payment(1_000, "a"), payment(1, "b"), payment(1, "c"))

    assert outcomes[0] == ChargeClosed("canceled")
    assert isinstance(outcomes[1], Movement)
    assert outcomes[2] == ChargeClosed(None)
    assert before.charges == {"a": "canceled", "b": "paid", "c": None}


def test_a_known_key_is_replayed_though_its_charge_is_closed() -> None:
    """The same posting with the same key is a replay, not a second payment."""
    outcomes = ledger_with_charges().decide(payment(10, "a", key="k"), payment(10, "a", key="k"))

    assert [type(each) for each in outcomes] == [Movement, Replay]
