"""Valid usernames, account numbers, emails and display names."""

import re
from typing import Final

import msgspec

from ousel.kernel import account_numbers
from ousel.kernel.errors import InvalidField
from ousel.kernel.texts import parse_printable_name
from ousel.ledger.refusals import AccountNotFound

IDENTIFIER_CHARACTERS_MAX: Final = 255
DISPLAY_NAME_CHARACTERS_MAX: Final = 100
EMAIL_CHARACTERS_MAX: Final = 254
RESERVED_USERNAMES: Final = frozenset({"admin", "help", "ousel", "root", "security", "support"})

# Matched before the text is made lower case, which makes the Kelvin sign (U+212A) the letter k.
_USERNAME: Final = re.compile(r"[A-Za-z0-9_]{3,30}", re.ASCII)
_EMAIL: Final = re.compile(r"[^@\s\x00-\x1f\x7f]+@[^@\s\x00-\x1f\x7f.]+(\.[^@\s\x00-\x1f\x7f.]+)+")


class HolderEmail(msgspec.Struct, frozen=True):
    """The email of an account's holder; it identifies the account once it is confirmed."""

    address: str
    is_confirmed: bool


NO_EMAIL: Final = HolderEmail("", is_confirmed=False)


class LockedHolder(msgspec.Struct, frozen=True):
    """What an account's holder has now; nobody else changes it before the transaction ends."""

    email: HolderEmail
    password_hash: str | None


def normalize_identifier(identifier: str, *, param: str) -> str:
    """Return the identifier as it is stored, or raise AccountNotFound if it is malformed."""
    if identifier.startswith("@"):
        username = identifier[1:]
        if _USERNAME.fullmatch(username):
            return f"@{username.lower()}"
    elif "@" in identifier:
        email = identifier.lower()
        if len(email) <= EMAIL_CHARACTERS_MAX and _EMAIL.fullmatch(email):
            return email
    elif account_numbers.looks_like_account_number(identifier.upper()):
        number = identifier.upper()
        if not account_numbers.check_digits_match(number):
            raise AccountNotFound(
                "No account has this number: its check digits are wrong.",
                param=param,
            )
        return number
    raise AccountNotFound(
        "No account has this identifier. Use an @username, an account number or an email.",
        param=param,
    )


def parse_username(text: str) -> str:
    """Return the username in lower case, or raise InvalidField."""
    given = text.removeprefix("@")
    if not _USERNAME.fullmatch(given):
        raise InvalidField(
            "The username must be 3 to 30 characters of a-z, 0-9 and _.", param="username"
        )
    username = given.lower()
    if username in RESERVED_USERNAMES:
        raise InvalidField("This username is reserved.", param="username")
    return username


def parse_email(text: str) -> str:
    """Return the email in lower case, or raise InvalidField."""
    email = text.strip().lower()
    fits = len(email) <= EMAIL_CHARACTERS_MAX and email.isprintable()
    if not fits or not _EMAIL.fullmatch(email):
        raise InvalidField("The email must be an address such as ada@example.com.", param="email")
    return email


def parse_display_name(text: str) -> str:
    """Return the display name without surrounding space, or raise InvalidField."""
    return parse_printable_name(text, DISPLAY_NAME_CHARACTERS_MAX, param="display_name")
