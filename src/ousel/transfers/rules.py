"""Valid notes, and how the form for sending money reads what people type."""

import re
from typing import Final

from ousel.accounts.rules import normalize_identifier
from ousel.kernel.errors import InvalidAmount, InvalidField
from ousel.kernel.money import CURRENCY, micros_from_json
from ousel.kernel.texts import parse_text

NOTE_CHARACTERS_MAX: Final = 500

# Thousands may be grouped with commas, as pages show them. A comma is never read as a decimal
# point: 5,50 is refused, with the advice to write 5.50. So is 0,500, which means half a unit to
# people who write a comma before the decimals.
_TYPED_AMOUNT: Final = re.compile(r"([1-9][0-9]{0,2}(?:,[0-9]{3})+|[0-9]+)(\.[0-9]+)?", re.ASCII)
_DECIMAL_COMMA: Final = re.compile(r"[0-9.]+,[0-9]+", re.ASCII)
_NUMBER_LIKE: Final = re.compile(r"ou[0-9]+", re.ASCII | re.IGNORECASE)


def parse_note(note: str | None) -> str | None:
    """Return the note of a transfer, or refuse it if it breaks a rule."""
    return parse_text(note, NOTE_CHARACTERS_MAX, param="note")


def parse_typed_amount(text: str) -> int:
    """Return the amount that a person typed, such as 25 or 1,000.00 OUSD, in millionths."""
    number = text.strip().removesuffix(CURRENCY).rstrip()
    typed = _TYPED_AMOUNT.fullmatch(number)
    if typed is None:
        if _DECIMAL_COMMA.fullmatch(number):
            raise InvalidAmount("Write a point before the decimals, such as 5.50.", param="amount")
        raise InvalidAmount("Write the amount as a number, such as 25.00.", param="amount")
    whole = typed[1].replace(",", "").lstrip("0") or "0"
    return micros_from_json(f"{whole}{typed[2] or ''}".encode())


def parse_typed_recipient(text: str) -> str:
    """Return the normalized identifier that a person typed; spaces in it do not matter.

    A username may lack its @, unless it looks like a correct or mistyped account number.
    """
    words = text.split()
    identifier = "".join(words)
    if not identifier:
        raise InvalidField(
            "Name the recipient: an @username, an account number or an email.", param="to"
        )
    if len(words) == 1 and "@" not in identifier and not _NUMBER_LIKE.fullmatch(identifier):
        identifier = f"@{identifier}"
    return normalize_identifier(identifier, param="to")
