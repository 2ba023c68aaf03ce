"""The lifecycle decides when a charge expires, and what may still happen to it."""

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ousel.charges.lifecycle import (
    LIFETIME_MICROS,
    cancel_refusal,
    created_at_of_newest_overdue,
    expiry_of_new_charge,
    is_final,
    is_overdue,
    micros_until_expiry,
    status_at,
)
from ousel.charges.rules import Charge, ChargeTerms, Status, is_charge_id
from ousel.charges.transitions import new_charge
from tests.support.clock import ManualClock

CREATED_AT = 1_790_000_000_000_000
STATUSES: tuple[Status, ...] = get_args(Status)


def charge_with(status: Status) -> Charge:
    """Return a charge that was created at CREATED_AT and has this stored status."""
    terms = ChargeTerms(amount=1)
    charge = new_charge("acct_1", "app_1", terms, None, ManualClock(CREATED_AT))
    return msgspec.structs.replace(charge, status=status)


def test_a_charge_expires_at_expires_at_and_not_before() -> None:
    """The last microsecond still counts; from expires_at on, the charge is expired."""
    charge = charge_with("created")
    last, end = charge.expires_at - 1, charge.expires_at

    assert end == CREATED_AT + LIFETIME_MICROS
    assert [status_at(charge, now) for now in (CREATED_AT, last)] == ["created"] * 2
    assert [status_at(charge, now) for now in (end, end + 1)] == ["expired"] * 2
    assert [micros_until_expiry(charge, now) for now in (last, end, end + 1)] == [1, 0, 0]


@pytest.mark.parametrize("status", [each for each in STATUSES if each != "created"])
def test_a_final_status_never_changes(status: Status) -> None:
    """Neither time nor a cancellation changes a charge that is paid, canceled or expired."""
    charge = charge_with(status)

    assert is_final(status)
    for now in (CREATED_AT, charge.expires_at, charge.expires_at + LIFETIME_MICROS):
        assert status_at(charge, now) == status
        assert not is_overdue(charge, now)
        assert cancel_refusal(charge, now) is not None


def test_an_open_charge_can_be_canceled_until_it_expires() -> None:
    """After that, the refusal names the status `expired`, though it is not stored yet."""
    charge = charge_with("created")

    refusal = cancel_refusal(charge, charge.expires_at)

    assert cancel_refusal(charge, charge.expires_at - 1) is None
    assert refusal is not None
    assert refusal.members == {"charge_id": charge.id, "charge_status": "expired"}


@given(now=st.integers(CREATED_AT, CREATED_AT + 2 * LIFETIME_MICROS))
def test_lists_and_reads_agree_about_expiry(now: int) -> None:
    """The bound that lists use separates exactly the charges that are overdue."""
    charge = charge_with("created")

    assert is_overdue(charge, now) == (charge.created_at <= created_at_of_newest_overdue(now))


def test_a_charge_lives_for_two_hours() -> None:
    """The interface promises this figure."""
    assert expiry_of_new_charge(CREATED_AT) == CREATED_AT + 2 * 3600 * 1_000_000


def test_a_charge_has_the_terms_that_the_partner_asked_for() -> None:
    """A retry is compared with all of them."""
    terms = ChargeTerms(
        amount=5, description="Tea", reference="A1", success_url="https://a", cancel_url="https://b"
    )
    charge = new_charge("acct_1", "app_1", terms, "key", ManualClock(CREATED_AT))

    assert charge.terms == terms
    assert (charge.account_id, charge.app_id, charge.idempotency_key) == ("acct_1", "app_1", "key")
    assert (charge.status, charge.created_at) == ("created", CREATED_AT)
    assert is_charge_id(charge.id)


@pytest.mark.parametrize("text", ["", "ch_", "ch_" + "0" * 25, "ch_" + "0" * 27, "tr_" + "0" * 26])
def test_other_texts_are_no_ids_of_charges(text: str) -> None:
    """An id has its prefix and exactly 26 characters."""
    assert not is_charge_id(text)
