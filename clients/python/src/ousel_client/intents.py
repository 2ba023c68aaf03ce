"""Intents: what shall happen once, with the key that makes it happen once."""

import secrets
import time
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeVar

from ousel_client.amounts import exact
from ousel_client.credentials import is_visible_ascii
from ousel_client.errors import OuselError
from ousel_client.exchange import Steps

KEY_CHARACTERS_MAX: Final = 255
KEY_RANDOM_BYTES: Final = 10

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferIntent:
    """A transfer that shall happen once, however often it is sent: write it down first."""

    to: str
    amount: Decimal
    note: str | None = None
    idempotency_key: str

    def __post_init__(self) -> None:
        """Refuse an amount that may have been rounded, and a key that no request can carry."""
        object.__setattr__(self, "amount", exact(self.amount))
        checked_key(self.idempotency_key)


def new_key() -> str:
    """Return an idempotency key that nobody has; keys sort by the time that they were made."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(KEY_RANDOM_BYTES)}"


def checked_key(key: str | None) -> str:
    """Return the key, a new one where there is none, or refuse one that no request can carry."""
    if key is None:
        return new_key()
    if len(key) > KEY_CHARACTERS_MAX or not is_visible_ascii(key):
        raise ValueError(
            f"An idempotency key is 1 to {KEY_CHARACTERS_MAX} visible ASCII characters."
        )
    return key


def keyed(steps: Steps[Result], key: str) -> Steps[Result]:
    """Take the steps; whatever they raise tells the key."""
    try:
        return (yield from steps)
    except OuselError as error:
        error.idempotency_key = key
        raise
