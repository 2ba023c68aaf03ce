"""The checks of single movements and accounts, by which new entries alone can be verified."""

import msgspec
import pytest

from ousel.ledger.rules import FIRST_HASH, Account, Movement, entry_hash
from ousel.ledger.verify import VerificationFailed, check_entry, check_head, check_pair
from tests.ledger.examples import MemoryLedger, account, posting

NOT_ONE_MOVEMENT = r"are not the two entries of one movement$"
NOT_COUNTED = r"^the row of account ada lacks its entry 7$"


@pytest.mark.parametrize("amount", [1, 10])
def test_the_two_entries_of_a_movement_fit(amount: int) -> None:
    """A movement of any amount is correct."""
    movement = _movement(amount)

    check_pair(movement.debit, movement.credit)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("transfer_id", "tr_other"),
        ("amount", 4),
        ("counterparty_id", "eve"),
        ("kind", "charge_payment"),
        ("note", "changed"),
        ("charge_id", "ch_1"),
        ("created_at", 5),
    ],
)
def test_entries_that_differ_in_one_field_are_not_one_movement(field: str, value: object) -> None:
    """The error names both entries."""
    movement = _movement(3)
    changed = msgspec.structs.replace(movement.credit, **{field: value})

    with pytest.raises(
        VerificationFailed,
        match=f"^entry 1 of account ada and entry 1 of account bob {NOT_ONE_MOVEMENT}",
    ):
        check_pair(movement.debit, changed)


def test_a_movement_is_a_debit_and_then_a_credit() -> None:
    """Exchanged entries do not fit, nor do two debits or two credits."""
    movement = _movement(3)
    for pair in (
        (movement.credit, movement.debit),
        (movement.debit, movement.debit),
        (movement.credit, movement.credit),
    ):
        with pytest.raises(VerificationFailed, match=NOT_ONE_MOVEMENT):
            check_pair(*pair)


def test_an_account_may_be_emptied() -> None:
    """An entry that leaves nothing is correct."""
    last = account("ada", 10)

    check_entry(_movement(10).debit, last)

    assert (last.sequence, last.balance) == (1, 0)


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("balance_after", 9, "leaves the balance 9, but 10 plus -3 is 7 millionths"),
        ("kind", "funding", "has the kind funding, which does not match its accounts"),
    ],
)
def test_an_entry_that_breaks_a_rule_is_named(field: str, value: object, error: str) -> None:
    """This holds even if its hash was adapted."""
    changed = msgspec.structs.replace(_movement(3).debit, **{field: value})
    forged = msgspec.structs.replace(changed, hash=entry_hash(FIRST_HASH, changed))

    with pytest.raises(VerificationFailed, match=rf"^entry 1 of account ada {error}$"):
        check_entry(forged, account("ada", 10))


def test_an_account_counts_all_its_entries() -> None:
    """An account that is missing, or that counts fewer entries than it has, is named."""
    for stored in (None, _head(sequence=6)):
        with pytest.raises(VerificationFailed, match=NOT_COUNTED):
            check_head(stored, _head(sequence=7))


def test_an_account_agrees_with_its_last_entry() -> None:
    """Its balance is compared only if there are no later entries."""
    check_head(_head(sequence=7, balance=5), _head(sequence=7, balance=5))
    check_head(_head(sequence=8, balance=9), _head(sequence=7, balance=5))

    with pytest.raises(VerificationFailed, match=r"^account ada has the balance 9, but"):
        check_head(_head(sequence=7, balance=9), _head(sequence=7, balance=5))


def _movement(amount: int) -> Movement:
    ledger = MemoryLedger(account("ada", 10), account("bob"))
    (outcome,) = ledger.decide(posting("ada", "@bob", amount, note="Lunch"))
    assert isinstance(outcome, Movement)
    return outcome


def _head(*, sequence: int, balance: int = 0) -> Account:
    return msgspec.structs.replace(account("ada", balance), sequence=sequence)
