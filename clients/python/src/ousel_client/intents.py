"""Intents: transfers to be made once, with the idempotency keys that ensure it."""

import secrets
import time
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NoReturn, TypeVar

from ousel_client.amounts import parse_amount
from ousel_client.credentials import is_visible_ascii
from ousel_client.errors import ApiError, OuselError, ServerError, Throttled
from ousel_client.exchange import Steps
from ousel_client.refusals import IdempotencyConflict

KEY_CHARACTERS_MAX: Final = 255
KEY_RANDOM_BYTES: Final = 10

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferIntent:
    """A transfer that happens once, however often it is sent. Store it before you send it."""

    to: str
    amount: Decimal
    note: str | None = None
    idempotency_key: str

    def __post_init__(self) -> None:
        """Refuse an amount that may have been rounded, and an invalid key."""
        object.__setattr__(self, "amount", parse_amount(self.amount))
        require_key(self.idempotency_key)


def new_key() -> str:
    """Return a new, unique idempotency key. Keys sort by the time of their creation."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(KEY_RANDOM_BYTES)}"


def parse_key(key: str | None) -> str:
    """Return the key, or a new one if it is None. Refuse an invalid key."""
    if key is None:
        return new_key()
    if len(key) > KEY_CHARACTERS_MAX or not is_visible_ascii(key):
        raise ValueError(
            f"An idempotency key must have 1 to {KEY_CHARACTERS_MAX} visible ASCII characters."
        )
    return key


def require_key(key: str | None) -> str:
    """Return the key. Refuse an invalid one, and None, which a program may have stored."""
    if key is None:
        raise TypeError("Give the idempotency key that the transfer was sent with.")
    return parse_key(key)


def raise_conflict_or_doubt(conflict: IdempotencyConflict, error: OuselError) -> NoReturn:
    """Raise one of these: the error has prevented a look at what the key was used for.

    A refusal must not hide that the key was used. After a failure that may pass, nobody knows yet
    whether it was used for the same request: the caller keeps the key and tries again.
    """
    if isinstance(error, ApiError) and not isinstance(error, ServerError | Throttled):
        raise conflict from error
    error.in_doubt = True
    raise error


def with_key_in_errors(steps: Steps[Result], key: str) -> Steps[Result]:
    """Run the steps, and add the key to any error that they raise.

    An exception that is not this client's, such as CancelledError, gets a note with the key.
    """
    try:
        return (yield from steps)
    except OuselError as error:
        error.idempotency_key = key
        raise
    except BaseException as error:
        error.add_note(f"The idempotency key is {key}.")
        raise
