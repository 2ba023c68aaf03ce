"""When a message is tried again, and when it is given up."""

from hypothesis import given
from hypothesis import strategies as st

from ousel.kernel.clock import MICROS_PER_SECOND
from ousel.mail.rules import (
    FIRST_PAUSE_SECONDS,
    PAUSE_SECONDS_MAX,
    REFUSED_ATTEMPTS_MAX,
    SENDING_DAYS_MAX,
    Mail,
    next_attempt_at,
)

DAYS = SENDING_DAYS_MAX * 24 * 3600 * MICROS_PER_SECOND


def tried(attempts: int, created_at: int = 0) -> Mail:
    """Return a message that was tried this often."""
    return Mail("acct_1", "mail_1", "ada@example.com", "s", "t", "h", created_at, attempts, 1)


@given(
    attempts=st.integers(1, 10_000),
    created_at=st.integers(0, 10**15),
    age=st.integers(0, 2 * DAYS),
    is_refused=st.booleans(),
)
def test_a_message_is_given_up_only_after_days_or_many_refusals(
    *, attempts: int, created_at: int, age: int, is_refused: bool
) -> None:
    """Until then it is tried again after a pause, which is neither too short nor too long."""
    now = created_at + age

    due_at = next_attempt_at(tried(attempts, created_at), now, is_refused=is_refused)

    gives_up = age >= DAYS or (is_refused and attempts >= REFUSED_ATTEMPTS_MAX)
    assert (due_at is None) == gives_up
    if due_at is not None:
        pause = (due_at - now) / MICROS_PER_SECOND
        assert FIRST_PAUSE_SECONDS <= pause <= PAUSE_SECONDS_MAX


def test_pauses_double_up_to_an_hour() -> None:
    """A mail server that comes back soon gets its mail soon; one that stays away is left alone."""
    pauses = [
        (next_attempt_at(tried(attempts), 0, is_refused=False) or 0) // MICROS_PER_SECOND
        for attempts in (1, 2, 3, 10, 11, 12, 1000)
    ]

    assert pauses == [5, 10, 20, 2560, 3600, 3600, 3600]
