"""Mail: what a message contains, when it is tried again, and when it is given up."""

from typing import Final

import msgspec

from ousel.kernel.clock import MICROS_PER_DAY, MICROS_PER_SECOND

FIRST_PAUSE_SECONDS: Final = 5
PAUSE_SECONDS_MAX: Final = 3600
REFUSED_ATTEMPTS_MAX: Final = 8  # a mail server may accept what it refused before
SENDING_DAYS_MAX: Final = 4


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """What a message says, whatever its form."""

    subject: str
    opening: tuple[str, ...]  # paragraphs
    code: str | None = None
    link: tuple[str, str] | None = None  # the words on it, and its address
    closing: tuple[str, ...] = ()


class Mail(msgspec.Struct, frozen=True):
    """A message in the outbox."""

    account_id: str  # the account that the message is about
    id: str
    recipient: str
    subject: str
    text: str
    html: str
    created_at: int
    attempts: int = 0
    due_at: int | None = None  # when to try it, or None if it is not to be sent
    failed_at: int | None = None


class OutboxFigures(msgspec.Struct, frozen=True):
    """How many messages wait, since when, and how many were given up."""

    waiting: int
    oldest_created_at: int | None
    failed: int


def is_too_old(mail: Mail, now: int) -> bool:
    """Return whether it is too late to send a message, because what it says may no longer hold."""
    return now - mail.created_at >= SENDING_DAYS_MAX * MICROS_PER_DAY


def next_attempt_at(mail: Mail, now: int, *, is_refused: bool) -> int | None:
    """Return when to retry a message that was not sent, or None to give it up.

    The message has been tried `mail.attempts` times. `is_refused` says that
    the mail server has answered that it will never accept the message.
    """
    if is_refused and mail.attempts >= REFUSED_ATTEMPTS_MAX:
        return None
    if is_too_old(mail, now):
        return None
    doublings = min(mail.attempts - 1, 20)
    return now + min(FIRST_PAUSE_SECONDS << doublings, PAUSE_SECONDS_MAX) * MICROS_PER_SECOND
