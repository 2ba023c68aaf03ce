"""Ids, which have a prefix and sort by time, and secrets, which are random."""

import hashlib
import hmac
import os
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

DIGITS: Final = "0123456789abcdefghijklmnopqrstuv"  # 5 bits each, in sort order
SECRET_CHARACTERS: Final = 40
HANDLE_CHARACTERS: Final = 8  # the public part of a secret, which identifies it

_DIGIT_OF_BYTE: Final = (DIGITS * 8).encode()
_PAIRS: Final = [high + low for high in DIGITS for low in DIGITS]  # two digits are 10 bits
_TIME_SHIFTS: Final = (40, 30, 20, 10, 0)
_TIME_DIGITS: Final = 2 * len(_TIME_SHIFTS)
_RANDOM_DIGITS: Final = 16
_ACCOUNT_PREFIX: Final = "acct_"
_ID_DIGITS: Final = _TIME_DIGITS + _RANDOM_DIGITS
_SECRET_TAIL: Final = re.compile(r"[0-9a-v]{40}")
# Every secret of `new_secret`, whatever its prefix; the group is its handle.
_ANY_SECRET: Final = re.compile(r"([a-z]{2}_(?:live_|test_)?[0-9a-v]{8})[0-9a-v]{32}")
_MICROS_PER_MILLISECOND: Final = 1_000
_TAILS_DRAWN_AT_ONCE: Final = 256

_tails: list[str] = []  # drawn in advance: one system call for many ids
os.register_at_fork(after_in_child=_tails.clear)


def new_id(prefix: str, clock: Callable[[], int]) -> str:
    """Return a new id, which sorts by time and has 80 random bits."""
    while not _tails:
        drawn = _random(_TAILS_DRAWN_AT_ONCE * _RANDOM_DIGITS)
        ends = range(_RANDOM_DIGITS, len(drawn) + 1, _RANDOM_DIGITS)
        _tails.extend([drawn[end - _RANDOM_DIGITS : end] for end in ends])
    return prefix + _time(clock() // _MICROS_PER_MILLISECOND) + _tails.pop()


def time_of_id(id_: str) -> int:
    """Return when an id was created, in microseconds, rounded down to a millisecond."""
    start = id_.index("_") + 1
    milliseconds = int(id_[start : start + _TIME_DIGITS], len(DIGITS))
    return milliseconds * _MICROS_PER_MILLISECOND


def after_all_ids(prefix: str) -> str:
    """Return a text that sorts after every id with this prefix: v is the highest digit of ids."""
    return f"{prefix}w"


def id_with_owner(id_: str, account_id: str) -> str:
    """Return the id, followed by the digits of the id of the account that owns it."""
    return id_ + account_id.removeprefix(_ACCOUNT_PREFIX)


def owner_of_id(id_: str) -> str | None:
    """Return the account that owns an id made by `id_with_owner`; None for any other id."""
    end = id_.find("_") + 1 + _ID_DIGITS
    return _ACCOUNT_PREFIX + id_[end:] if len(id_) == end + _ID_DIGITS else None


def new_secret(prefix: str) -> str:
    """Return a new secret with 200 random bits, of which the first 40 are its public handle.

    The prefix is two letters and `_`. The mode may follow, as in `sk_live_`.
    """
    return prefix + _random(SECRET_CHARACTERS)


def new_handle(prefix: str) -> str:
    """Return a new handle, for a secret that is derived from another."""
    return prefix + _random(HANDLE_CHARACTERS)


def derive_secret(handle: str, parent: str) -> str:
    """Return the secret with this handle that only the holder of the parent secret can compute.

    It has 160 bits besides its handle, and reveals nothing about its parent.
    """
    digest = hmac.digest(parent.encode(), handle.encode(), "sha256")
    return handle + digest.translate(_DIGIT_OF_BYTE).decode()


def repeatable_secret(prefix: str, parent: str, purpose: str) -> str:
    """Return the secret that only the holder of the parent secret can compute for this purpose.

    It has 200 bits, and each call returns the same one.
    """
    digest = hmac.digest(parent.encode(), f"{prefix} {purpose}".encode(), "sha512")
    return prefix + digest[:SECRET_CHARACTERS].translate(_DIGIT_OF_BYTE).decode()


def repeatable_id(prefix: str, clock: Callable[[], int], parent: str, purpose: str) -> str:
    """Return an id that sorts by time; for one parent and purpose, it always has the same tail."""
    tail = repeatable_secret(prefix, parent, purpose)[-_RANDOM_DIGITS:]
    return prefix + _time(clock() // _MICROS_PER_MILLISECOND) + tail


def tail_of_id(id_: str) -> str:
    """Return the part of an id that does not depend on its time."""
    return id_[-_RANDOM_DIGITS:]


def is_secret(text: str, prefix: str) -> bool:
    """Return whether a text has the form of a secret with this prefix."""
    return text.startswith(prefix) and _SECRET_TAIL.fullmatch(text, len(prefix)) is not None


def handle_of(secret: str) -> str:
    """Return the public handle of a secret: its prefix and the first characters after it."""
    return secret[: secret.rindex("_") + 1 + HANDLE_CHARACTERS]


def without_secrets(text: str) -> str:
    """Return the text with every secret cut down to its public handle."""
    return _ANY_SECRET.sub(r"\1...", text)


def secret_hash(secret: str) -> str:
    """Return the hash that is stored; secrets are random, so plain SHA-256 is safe."""
    return hashlib.sha256(secret.encode()).hexdigest()


def matches_hash(stored: str, secret: str) -> bool:
    """Return whether the stored hash is that of this secret, in constant time."""
    return hmac.compare_digest(stored, secret_hash(secret))


@lru_cache(maxsize=128)
def _time(milliseconds: int) -> str:
    return "".join([_PAIRS[milliseconds >> shift & 1023] for shift in _TIME_SHIFTS])


def _random(digits: int) -> str:
    return os.urandom(digits).translate(_DIGIT_OF_BYTE).decode()
