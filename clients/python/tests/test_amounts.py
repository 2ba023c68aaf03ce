"""Amounts are sent exactly as given, or refused before anything is sent."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ousel.kernel.money import micros_from_json
from ousel_client import TransferIntent
from ousel_client.amounts import encode_object, parse_amount


@given(micros=st.integers(1, 999_999_999_999_999))
def test_every_amount_arrives_unchanged(micros: int) -> None:
    """The server reads the same millionths, whether a decimal or a text was given."""
    amount = Decimal(micros).scaleb(-6)

    for given_amount in (amount, str(amount) if "E" not in str(amount) else f"{amount:f}"):
        body = encode_object({"amount": parse_amount(given_amount)})
        assert micros_from_json(body.removeprefix(b'{"amount":').removesuffix(b"}")) == micros


@pytest.mark.parametrize(
    ("amount", "literal"),
    [
        (25, b"25"),
        ("25.00", b"25.00"),
        ("0.1", b"0.1"),
        (Decimal("1E+3"), b"1000"),
        (Decimal("1E-6"), b"0.000001"),
    ],
)
def test_an_amount_is_a_plain_json_number(amount: Any, literal: bytes) -> None:
    """It has neither quotes nor an exponent."""
    assert encode_object({"amount": parse_amount(amount)}) == b'{"amount":' + literal + b"}"


@pytest.mark.parametrize("amount", [0.1, 25.0, True, None, b"25", [25]])
def test_other_types_are_refused(amount: Any) -> None:
    """A float may have been rounded, so every float is refused, even 25.0."""
    with pytest.raises(TypeError, match=r"Decimal.*not a " + type(amount).__name__):
        parse_amount(amount)
    with pytest.raises(TypeError):
        TransferIntent(to="@ada", amount=amount, idempotency_key="key")


@pytest.mark.parametrize(
    "amount",
    [
        "",
        " 1",
        "1e3",
        "1_000",
        "1,5",
        "NaN",
        "\u0661",
        Decimal("NaN"),
        Decimal("Infinity"),
        Decimal("1E+999999999"),
        Decimal("1E-999999999"),
        10**60,
        "9" * 500,
    ],
)
def test_other_values_are_refused(amount: Any) -> None:
    """Texts in another form, and numbers that no ledger can store, raise ValueError."""
    with pytest.raises(ValueError, match="amount"):
        parse_amount(amount)


def test_fields_that_are_not_given_are_left_out() -> None:
    """A field that is None is left out, not sent as null."""
    assert encode_object({"to": "@\u00e4", "note": None, "advance": 3}) == (
        b'{"to":"@\\u00e4","advance":3}'
    )
