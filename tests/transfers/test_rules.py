"""What people type into the form for sending money."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ousel.kernel.errors import InvalidField, Refusal
from ousel.kernel.money import AMOUNT_MICROS_MAX, money_text
from ousel.ledger.refusals import AccountNotFound
from ousel.transfers.rules import parse_typed_amount, parse_typed_recipient

AMOUNTS = {
    "25": 25_000_000,
    " 25.00 ": 25_000_000,
    "25.00 OUSD": 25_000_000,
    "0025.5": 25_500_000,
    "1,000": 1_000_000_000,
    "999,999,999.999999": AMOUNT_MICROS_MAX,
    "0.000001": 1,
}
DECIMAL_COMMAS = ("5,50", "1,0000", "1.000,00", "0,500", "0,005", "00,123")
NO_AMOUNTS = (
    *("", "0", "-1", "5,50", "1,00", "1,0000", "1.000.000,00", "1e3", ".5", "5.", "٢٥", "25 EUR"),
    *("0.0000001", "1,000,000,000", "9" * 100, "25.00.00", "NaN"),
)


@pytest.mark.parametrize(("typed", "micros"), AMOUNTS.items())
def test_an_amount_may_be_typed_as_pages_show_it(typed: str, micros: int) -> None:
    """With groups of thousands or without, and with the currency."""
    assert parse_typed_amount(typed) == micros


@pytest.mark.parametrize("typed", [*DECIMAL_COMMAS, "5,50 OUSD", "0,500 OUSD"])
def test_a_decimal_comma_gets_the_advice_to_write_a_point(typed: str) -> None:
    """A zero before the comma means decimals. Other wrong texts get an example of a number."""
    with pytest.raises(Refusal, match=r"point before the decimals, such as 5\.50"):
        parse_typed_amount(typed)
    with pytest.raises(Refusal, match=r"as a number, such as 25\.00"):
        parse_typed_amount("five")


@pytest.mark.parametrize("typed", NO_AMOUNTS)
def test_what_could_mean_another_amount_is_refused(typed: str) -> None:
    """A comma is never a decimal point, and nothing is rounded."""
    with pytest.raises(Refusal) as refused:
        parse_typed_amount(typed)
    assert refused.value.param == "amount"


@given(st.integers(1, AMOUNT_MICROS_MAX))
def test_every_amount_on_a_page_can_be_typed_in_again(micros: int) -> None:
    """Copying an amount from a page into the form gives the same amount."""
    assert parse_typed_amount(money_text(micros)) == micros


def test_a_recipient_may_be_typed_with_spaces() -> None:
    """Account numbers are often written in groups; anything else must be an identifier."""
    assert parse_typed_recipient(" ou83 0000 000000 ") == "OU830000000000"
    assert parse_typed_recipient("@Ada") == "@ada"
    with pytest.raises(InvalidField):
        parse_typed_recipient("  ")
    for text in ("a", "OU84 0000 000000", "@a", "ada.lovelace", "ada@example"):
        with pytest.raises(AccountNotFound):
            parse_typed_recipient(text)


def test_a_username_may_be_typed_without_its_at_sign() -> None:
    """Two words, or what may be a mistyped account number, are not taken for a username."""
    assert parse_typed_recipient(" Grace ") == "@grace"
    assert parse_typed_recipient("ousel_fan") == "@ousel_fan"
    for text in ("grace hopper", "OU83000000000", "ou8300000000001", "OU830000000001"):
        with pytest.raises(AccountNotFound):
            parse_typed_recipient(text)
