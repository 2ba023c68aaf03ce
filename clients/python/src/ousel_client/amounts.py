"""Amounts: decimals that stay exact on their way to JSON. No float ever touches one."""

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

Amount = Decimal | int | str

DIGITS_MAX: Final = 40

_WRITTEN: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)


def exact(amount: object) -> Decimal:
    """Return the amount as a decimal; what may have been rounded already is refused."""
    if isinstance(amount, bool) or not isinstance(amount, Decimal | int | str):
        raise TypeError(
            f"An amount is a Decimal, an int or a str such as '25.00', not a "
            f"{type(amount).__name__}."
        )
    if isinstance(amount, str) and not _WRITTEN.fullmatch(amount):
        raise ValueError(f"{amount[:DIGITS_MAX]!r} is not an amount such as '25.00'.")
    value = Decimal(amount)
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or len(digits) + abs(exponent) > DIGITS_MAX:
        raise ValueError("The amount is no number that a ledger can hold.")
    return value


def json_object(fields: Mapping[str, str | int | Decimal | None]) -> bytes:
    """Return the fields as JSON, without those that are None; decimals become exact numbers."""
    members = (
        f"{json.dumps(name)}:{_literal(value)}"
        for name, value in fields.items()
        if value is not None
    )
    return f"{{{','.join(members)}}}".encode()


def _literal(value: str | int | Decimal) -> str:
    return format(value, "f") if isinstance(value, Decimal) else json.dumps(value)
