"""Confirmations of emails: how long they are valid, and how a code is checked."""

import hmac
from typing import Final, Literal

import msgspec

from ousel.kernel.ids import secret_hash
from ousel.kernel.texts import with_ascii_digits

CONFIRMATION_SECONDS: Final = 30 * 60
CODE_DIGITS: Final = 6
WRONG_CODES_MAX: Final = 5
LINK_PREFIX: Final = "ep_"

CodeVerdict = Literal["right", "wrong", "ended"]


class PendingConfirmation(msgspec.Struct, frozen=True):
    """A pending confirmation of an email, by the link or the code that was sent to it."""

    account_id: str
    email: str
    link_hash: str
    code_hash: str
    wrong_codes: int
    created_at: int
    expires_at: int

    def is_valid_at(self, now: int) -> bool:
        """Return whether the link and the code can still be used."""
        return now < self.expires_at and self.wrong_codes < WRONG_CODES_MAX


def judge_code(pending: PendingConfirmation | None, code: str, now: int) -> CodeVerdict:
    """Return whether the code is right or wrong, or whether codes are no longer accepted."""
    if pending is None or not pending.is_valid_at(now):
        return "ended"
    given = code_hash(pending.account_id, normalize_code(code))
    return "right" if hmac.compare_digest(given, pending.code_hash) else "wrong"


def code_hash(account_id: str, code: str) -> str:
    """Return the hash under which an account's code is stored."""
    return secret_hash(f"{account_id}:{code}")


def normalize_code(code: str) -> str:
    """Return a code in ASCII digits, without the spaces that people type or copy."""
    return with_ascii_digits("".join(code.split()))
