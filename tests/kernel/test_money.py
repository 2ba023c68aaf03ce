"""Amounts are exact: from the JSON text to millionths and back, or refused."""

from decimal import Context, Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ousel.kernel.errors import InvalidAmount
from ousel.kernel.money import (
    AMOUNT_MICROS_MAX,
    LITERAL_CHARACTERS_MAX,
    MICROS_PER_UNIT,
    json_from_micros,
    micros_from_json,
    money_text,
)

EXACT = Context(prec=2000, Emax=999_999, Emin=-999_999)

amounts = st.integers(min_value=1, max_value=AMOUNT_MICROS_MAX)
json_numbers = st.from_regex(
    r"\A-?(0|[1-9][0-9]{0,11})(\.[0-9]{1,9})?([eE][+-]?[0-9]{1,2})?\Z"
).filter(lambda text: len(text) <= LITERAL_CHARACTERS_MAX)


@pytest.mark.parametrize(
    ("literal", "micros"),
    [
        ("0.1", 100_000),
        ("1e1", 10_000_000),
        ("1E+1", 10_000_000),
        ("12.5e-1", 1_250_000),
        ("0.123456", 123_456),
        ("0.000001", 1),
        ("1e-6", 1),
        ("100e-8", 1),
        ("1.0000000000", 1_000_000),
        ("1." + "0" * 62, 1_000_000),
        ("0.0000010", 1),
        ("0.000000001e3", 1),
        ("10000000000e-9", 10_000_000),
        ("25", 25_000_000),
        ("999999999.999999", 999_999_999_999_999),
        ("999999999999999e-6", 999_999_999_999_999),
        ("0.999999999999999e9", 999_999_999_999_999),
    ],
)
def test_a_number_is_read_exactly(literal: str, micros: int) -> None:
    """Each spelling of a JSON number stands for exactly its own value."""
    assert micros_from_json(literal.encode()) == micros


@pytest.mark.parametrize(
    ("literal", "reason"),
    [
        ("0.0000001", "at most 6 decimal places"),
        ("1e-7", "at most 6 decimal places"),
        ("1.0000001", "at most 6 decimal places"),
        ("15e-7", "at most 6 decimal places"),
        ("1e-400", "at most 6 decimal places"),
        ("1000000000", "at most 999999999.999999"),
        ("999999999.9999991", "at most"),
        ("1e9", "at most 999999999.999999"),
        ("1e400", "at most 999999999.999999"),
        ("1e" + "9" * 60, "at most 999999999.999999"),
        ("0", "at least 0.000001"),
        ("0.00", "at least 0.000001"),
        ("0e400", "at least 0.000001"),
        ("-0", "at least 0.000001"),
        ("-1", "at least 0.000001"),
        ("9" * 400, "at most 64 characters"),
        ("1." + "0" * 63, "at most 64 characters"),
        ('"5"', "must be a JSON number"),
        ("true", "must be a JSON number"),
        ("x" * 64, "must be a JSON number"),
        ("null", "must be a JSON number"),
        ("NaN", "must be a JSON number"),
        ("Infinity", "must be a JSON number"),
        ("[1]", "must be a JSON number"),
        ("{}", "must be a JSON number"),
        ("", "must be a JSON number"),
        ("01", "must be a JSON number"),
        (".5", "must be a JSON number"),
        ("5.", "must be a JSON number"),
        ("+5", "must be a JSON number"),
        ("1_0", "must be a JSON number"),
        ("0x10", "must be a JSON number"),
        ("1\n", "must be a JSON number"),
        ("\u0661", "must be a JSON number"),
    ],
)
def test_what_is_no_amount_is_refused(literal: str, reason: str) -> None:
    """An amount out of range, too fine or not a JSON number is refused by the field's name."""
    with pytest.raises(InvalidAmount, match=reason) as refused:
        micros_from_json(literal.encode(), param="price")

    assert refused.value.param == "price"
    assert refused.value.detail.startswith("price must be") or "price must have" in str(
        refused.value
    )


def test_an_amount_is_called_amount_unless_the_field_has_another_name() -> None:
    """Most requests have one amount."""
    with pytest.raises(InvalidAmount, match=r"^amount must be at least") as refused:
        micros_from_json(b"0")

    assert refused.value.param == "amount"


@given(json_numbers)
@example("999999999.999999")
@example("1000000000.000000")
@example("0.0000000")
@example("100e-8")
def test_reading_agrees_with_decimal_arithmetic(literal: str) -> None:
    """Any JSON number is read as decimal arithmetic reads it, or refused for its value."""
    micros = EXACT.multiply(Decimal(literal), Decimal(MICROS_PER_UNIT))
    fits = 1 <= micros <= AMOUNT_MICROS_MAX and micros == micros.to_integral_value(context=EXACT)

    if fits:
        assert micros_from_json(literal.encode()) == int(micros)
    else:
        with pytest.raises(InvalidAmount):
            micros_from_json(literal.encode())


@given(amounts)
def test_what_is_written_is_read_back(micros: int) -> None:
    """An amount survives the way to JSON and back."""
    assert micros_from_json(json_from_micros(micros).encode()) == micros


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_writing_keeps_the_value_and_needs_no_digit_more(micros: int) -> None:
    """What is written has the exact value, two decimals or more, and no needless zero."""
    text = json_from_micros(micros)
    decimals = text.partition(".")[2]

    assert Decimal(text) == EXACT.divide(Decimal(micros), Decimal(MICROS_PER_UNIT))
    assert 2 <= len(decimals) <= 6
    assert len(decimals) == 2 or not decimals.endswith("0")


@given(amounts)
def test_a_client_that_reads_doubles_sees_every_digit(micros: int) -> None:
    """All 15 digits of the largest amounts survive a double."""
    assert round(float(json_from_micros(micros)) * MICROS_PER_UNIT) == micros


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (25_000_000, "25.00"),
        (1, "0.000001"),
        (1_234_567_800, "1234.5678"),
        (100_000, "0.10"),
        (0, "0.00"),
        (-1_500_000, "-1.50"),
        (-1, "-0.000001"),
        (999_999_999_999_999, "999999999.999999"),
    ],
)
def test_an_amount_is_written_for_people(micros: int, text: str) -> None:
    """Two decimals, and more only where they are needed."""
    assert json_from_micros(micros) == text


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "0.00 OUSD"),
        (25_000_000, "25.00 OUSD"),
        (10_000_000_000, "10,000.00 OUSD"),
        (-1_234_567_890_001, "-1,234,567.890001 OUSD"),
    ],
)
def test_an_amount_in_a_message_is_grouped(micros: int, text: str) -> None:
    """Thousands are separated, and the currency follows."""
    assert money_text(micros) == text
