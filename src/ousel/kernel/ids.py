"""Identifiers and secrets: prefixed, time-ordered where they name, random where they open."""

import hashlib
import hmac
import os
import re
from functools import lru_cache
from typing import Final

from ousel.kernel.clock import Clock

DIGITS: Final = "0123456789abcdefghijklmnopqrstuv"  # 5 bits each, in the order they sort in
SECRET_CHARACTERS: Final = 40
HANDLE_CHARACTERS: Final = 8  # the public part of a secret, that names it in lists and look-ups

_DIGIT_OF_BYTE: Final = (DIGITS * 8).encode()
_PAIRS: Final = [high + low for high in DIGITS for low in DIGITS]  # of digits, 10 bits each
_TIME_SHIFTS: Final = (40, 30, 20, 10, 0)
_RANDOM_DIGITS: Final = 16
_SECRET_TAIL: Final = re.compile(r"[0-9a-v]{40}")
_MICROS_PER_MILLISECOND: Final = 1_000
_TAILS_DRAWN_AT_ONCE: Final = 256

_tails: list[str] = []  # of ids to come: the kernel is asked for many at once
os.register_at_fork(after_in_child=_tails.clear)


def new_id(prefix: str, clock: Clock) -> str:
    """Return a fresh id: its tail sorts by time, and 80 of its bits cannot be guessed."""
    while not _tails:
        drawn = _random(_TAILS_DRAWN_AT_ONCE * _RANDOM_DIGITS)
        ends = range(_RANDOM_DIGITS, len(drawn) + 1, _RANDOM_DIGITS)
        _tails.extend([drawn[end - _RANDOM_DIGITS : end] for end in ends])
    return prefix + _time(clock() // _MICROS_PER_MILLISECOND) + _tails.pop()


def new_secret(prefix: str) -> str:
    """Return a fresh secret with 200 random bits, of which the first 40 are its public handle."""
    return prefix + _random(SECRET_CHARACTERS)


def is_secret(text: str, prefix: str) -> bool:
    """Say whether a text is written like a secret with this prefix, known or not."""
    return text.startswith(prefix) and _SECRET_TAIL.fullmatch(text, len(prefix)) is not None


def handle_of(secret: str) -> str:
    """Return the public part of a secret: its prefix and the first characters after it."""
    return secret[: secret.rindex("_") + 1 + HANDLE_CHARACTERS]


def secret_hash(secret: str) -> str:
    """Return what is stored of a secret: random as it is, a plain SHA-256 cannot be reversed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def matches_hash(stored: str, secret: str) -> bool:
    """Say whether this is what is stored of a secret; how long that takes tells nothing of it."""
    return hmac.compare_digest(stored, secret_hash(secret))


@lru_cache(maxsize=128)
def _time(milliseconds: int) -> str:
    return "".join([_PAIRS[milliseconds >> shift & 1023] for shift in _TIME_SHIFTS])


def _random(digits: int) -> str:
    return os.urandom(digits).translate(_DIGIT_OF_BYTE).decode()
