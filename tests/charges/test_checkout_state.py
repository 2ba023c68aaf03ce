"""Which state of the checkout page a viewer sees, for every pair of accounts."""

import pytest

from ousel.charges.checkout import CheckoutState, checkout_state
from ousel.charges.rules import ChargeTerms
from ousel.charges.transitions import new_charge
from ousel.kernel.clock import system_clock
from ousel.ledger.rules import BALANCE_MICROS_MAX, FIRST_HASH, Account, Status

AMOUNT = 1_000_000


def account(account_id: str, balance: int = AMOUNT, status: Status = "active") -> Account:
    """Return an account with this balance and status."""
    return Account(account_id, account_id, "", account_id, status, balance, 0, FIRST_HASH, 0, 0)


@pytest.mark.parametrize(
    ("merchant", "viewer", "state"),
    [
        (account("shop"), None, "signed_out"),
        (account("shop", status="frozen"), None, "not_receiving"),
        (account("shop"), account("shop"), "own"),
        (account("shop", status="frozen"), account("shop", status="frozen"), "own"),
        (account("shop"), account("payer"), "payable"),
        (account("shop"), account("payer", AMOUNT - 1), "short"),
        (account("shop"), account("payer", status="frozen"), "frozen"),
        (account("shop", status="frozen"), account("payer", 0), "not_receiving"),
        (account("shop", status="frozen"), account("payer", status="frozen"), "not_receiving"),
        (account("shop", BALANCE_MICROS_MAX), account("payer"), "payable"),
    ],
)
def test_an_open_charge_shows_what_the_ledger_would_decide(
    merchant: Account, viewer: Account | None, state: CheckoutState
) -> None:
    """A merchant at the balance limit is an exception: the refusal comes with the payment."""
    charge = new_charge("shop", "app_1", ChargeTerms(amount=AMOUNT), None, system_clock)

    assert checkout_state(charge, merchant, viewer) == state
