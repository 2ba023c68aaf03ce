"""Identifiers and secrets: prefixed, time-ordered where they name, random where they open."""

import base64
import hashlib
import re
import secrets
from typing import Final

from ousel.kernel.clock import Clock

SECRET_BYTES: Final = 25
HANDLE_CHARACTERS: Final = 8  # the public part of a secret, that names it in lists and look-ups

_RANDOM_BYTES: Final = 10
_SECRET_TAIL: Final = re.compile(r"[0-9a-v]{40}")
_MICROS_PER_MILLISECOND: Final = 1_000


def new_id(prefix: str, clock: Clock) -> str:
    """Return a fresh id: its tail sorts by time, and 80 of its bits cannot be guessed."""
    milliseconds = clock() // _MICROS_PER_MILLISECOND
    return prefix + _base32(milliseconds.to_bytes(6, "big") + secrets.token_bytes(_RANDOM_BYTES))


def new_secret(prefix: str) -> str:
    """Return a fresh secret with 200 random bits, of which the first 40 are its public handle."""
    return prefix + _base32(secrets.token_bytes(SECRET_BYTES))


def is_secret(text: str, prefix: str) -> bool:
    """Say whether a text is written like a secret with this prefix, known or not."""
    return text.startswith(prefix) and _SECRET_TAIL.fullmatch(text, len(prefix)) is not None


def handle_of(secret: str) -> str:
    """Return the public part of a secret: its prefix and the first characters after it."""
    return secret[: secret.rindex("_") + 1 + HANDLE_CHARACTERS]


def secret_hash(secret: str) -> str:
    """Return what is stored of a secret: random as it is, a plain SHA-256 cannot be reversed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _base32(octets: bytes) -> str:
    return base64.b32hexencode(octets).decode().rstrip("=").lower()
