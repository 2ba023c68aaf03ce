"""Amounts: exact conversion between JSON numbers and integers of the smallest unit."""

import re
from functools import lru_cache
from typing import Final

from ousel.kernel.errors import InvalidAmount

CURRENCY: Final = "OUSD"
DECIMAL_PLACES: Final = 6
MICROS_PER_UNIT: Final = 10**DECIMAL_PLACES
AMOUNT_MICROS_MAX: Final = 999_999_999_999_999
LITERAL_CHARACTERS_MAX: Final = 64

_MICROS_PER_CENT: Final = MICROS_PER_UNIT // 100
_AMOUNT_DIGITS_MAX: Final = len(str(AMOUNT_MICROS_MAX))
_NUMBER: Final = re.compile(rb"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")


def micros_from_json(literal: bytes, *, param: str = "amount") -> int:
    """Return the amount of a JSON number in millionths, or refuse it."""
    number = _NUMBER.fullmatch(literal) if len(literal) <= LITERAL_CHARACTERS_MAX else None
    if number is None:
        raise InvalidAmount(_number_error(literal, param), param=param)
    sign, whole, decimals, exponent = number.groups(default=b"")
    digits = (whole + decimals).lstrip(b"0")
    if not digits or sign:
        raise InvalidAmount(f"{param} must be at least 0.000001.", param=param)
    shift = int(exponent or 0) - len(decimals) + DECIMAL_PLACES
    if len(digits) + shift > _AMOUNT_DIGITS_MAX:
        raise InvalidAmount(f"{param} must be at most 999999999.999999.", param=param)
    if shift >= 0:
        return int(digits) * int(10**shift)
    significant = digits.rstrip(b"0")
    if len(digits) - len(significant) + shift < 0:
        raise InvalidAmount(f"{param} must have at most 6 decimal places.", param=param)
    return int(digits[:shift])


def _format_micros(micros: int) -> str:
    """Return an amount as a JSON number with two decimals, or more if needed."""
    sign = "-" if micros < 0 else ""
    units, remainder = divmod(abs(micros), MICROS_PER_UNIT)
    cents, rest = divmod(remainder, _MICROS_PER_CENT)
    if not rest:
        return f"{sign}{units}.{cents:02d}"
    return f"{sign}{units}.{remainder:06d}".rstrip("0")


# Cached, because the same balance is often read many times. The cache is not a decorator, because
# mutation testing leaves out decorated functions.
json_from_micros: Final = lru_cache(maxsize=1024)(_format_micros)


def money_text(micros: int) -> str:
    """Return an amount as people read it, such as 25.00 OUSD or 10,000.00 OUSD."""
    units, _, decimals = json_from_micros(abs(micros)).partition(".")
    return f"{'-' if micros < 0 else ''}{int(units):,}.{decimals} {CURRENCY}"


def _number_error(literal: bytes, param: str) -> str:
    if len(literal) > LITERAL_CHARACTERS_MAX:
        return f"{param} must be written in at most {LITERAL_CHARACTERS_MAX} characters."
    return f"{param} must be a JSON number, such as 25.00 (not a string, boolean, null or NaN)."
