"""Amounts are decimals and are written to JSON exactly, without floats."""

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

Amount = Decimal | int | str

DIGITS_MAX: Final = 40

_WRITTEN: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)


def parse_amount(amount: object) -> Decimal:
    """Return the amount as a decimal. Refuse a float, because it may have been rounded."""
    if isinstance(amount, bool) or not isinstance(amount, Decimal | int | str):
        raise TypeError(
            f"An amount must be a Decimal, an int or a str such as '25.00', not a "
            f"{type(amount).__name__}."
        )
    if isinstance(amount, str) and not _WRITTEN.fullmatch(amount):
        raise ValueError(f"{amount[:DIGITS_MAX]!r} is not an amount such as '25.00'.")
    value = Decimal(amount)
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or len(digits) + abs(exponent) > DIGITS_MAX:
        raise ValueError("The amount is not a number that the ledger can store.")
    return value


def encode_object(fields: Mapping[str, str | int | Decimal | None]) -> bytes:
    """Return the fields that are not None as a JSON object, with decimals as exact numbers."""
    members = (
        f"{json.dumps(name)}:{_literal(value)}"
        for name, value in fields.items()
        if value is not None
    )
    return f"{{{','.join(members)}}}".encode()


def _literal(value: str | int | Decimal) -> str:
    return format(value, "f") if isinstance(value, Decimal) else json.dumps(value)
