"""Account numbers: OU, two check digits (ISO 7064 MOD 97-10, as in an IBAN), ten digits."""

import re
from typing import Final

PREFIX: Final = "OU"
SERIAL_DIGITS: Final = 10
SERIAL_MAX: Final = 10**SERIAL_DIGITS - 1

_SHAPE: Final = re.compile(r"OU([0-9]{2})([0-9]{10})", re.ASCII)
_PREFIX_AS_DIGITS: Final = "2430"  # letters continue the digits: A is 10, so O is 24 and U is 30
_MODULUS: Final = 97


def account_number(serial: int) -> str:
    """Return the account number with this serial."""
    assert 0 <= serial <= SERIAL_MAX
    digits = f"{serial:0{SERIAL_DIGITS}d}"
    check = _MODULUS + 1 - int(f"{digits}{_PREFIX_AS_DIGITS}00") % _MODULUS
    return f"{PREFIX}{check:02d}{digits}"


def looks_like_account_number(text: str) -> bool:
    """Return whether the text has the form of an account number, valid or mistyped."""
    return _SHAPE.fullmatch(text) is not None


def check_digits_match(number: str) -> bool:
    """Return whether the check digits of a number in this form are correct."""
    shape = _SHAPE.fullmatch(number)
    assert shape is not None
    check, digits = shape.groups()
    return account_number(int(digits))[2:4] == check
