"""A code confirms an email once, in time, within five tries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ousel.emails.rules import WRONG_CODES_MAX, PendingConfirmation, code_hash, judge_code

CODES = st.text("0123456789", min_size=6, max_size=6)


def confirmation_of(code: str, wrong_codes: int = 0, expires_at: int = 100) -> PendingConfirmation:
    """Return a pending confirmation with this code."""
    hashed = code_hash("acct_1", code)
    return PendingConfirmation("acct_1", "ada@example.com", "", hashed, wrong_codes, 0, expires_at)


@given(
    code=CODES,
    typed=CODES,
    wrong_codes=st.integers(0, 2 * WRONG_CODES_MAX),
    expires_at=st.integers(0, 100),
    now=st.integers(0, 100),
)
def test_only_the_right_code_in_time_confirms_an_email(
    code: str, typed: str, wrong_codes: int, expires_at: int, now: int
) -> None:
    """After five wrong codes, or when it has expired, even the right code does nothing."""
    verdict = judge_code(confirmation_of(code, wrong_codes, expires_at), typed, now)

    if now >= expires_at or wrong_codes >= WRONG_CODES_MAX:
        assert verdict == "ended"
    else:
        assert verdict == ("right" if typed == code else "wrong")


@given(code=CODES)
def test_spaces_in_a_code_do_not_matter(code: str) -> None:
    """People copy them, and type them between groups of digits."""
    assert judge_code(confirmation_of(code), f" {code[:3]} {code[3:]}\n", 0) == "right"


@pytest.mark.parametrize("typed", ["١٢٣٤٥٦", "۱۲۳۴۵۶", "\uff11\uff12\uff13 \uff14\uff15\uff16"])
def test_a_code_may_be_typed_in_the_digits_of_any_script(typed: str) -> None:
    """Some keyboards write Arabic, Persian or full-width digits."""
    assert judge_code(confirmation_of("123456"), typed, 0) == "right"


@given(text=st.text())
def test_any_text_can_be_judged(text: str) -> None:
    """Whatever a form contains is a wrong code, and there may be nothing to confirm."""
    assert judge_code(confirmation_of("12345x"), text, 0) in {"wrong", "right"}
    assert judge_code(None, text, 0) == "ended"


def test_the_same_code_has_another_hash_for_another_account() -> None:
    """Whoever reads the table cannot compare codes."""
    assert code_hash("acct_1", "123456") != code_hash("acct_2", "123456")
