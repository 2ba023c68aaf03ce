"""Passwords: Argon2id, off the event loop, a few at a time."""

import asyncio
from functools import cache
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

HASHES_AT_ONCE: Final = 2  # each takes 64 MiB for its while

_hasher: Final = PasswordHasher()


class Passwords:
    """Hashes and compares passwords."""

    def __init__(self) -> None:
        """Take turns from the start."""
        self._turns = asyncio.Semaphore(HASHES_AT_ONCE)

    async def hashed(self, password: str) -> str:
        """Return what is stored of a password."""
        async with self._turns:
            return await asyncio.to_thread(_hasher.hash, password)

    async def match(self, stored: str | None, password: str) -> bool:
        """Say whether the password is the one; where there is none, take as long to say no."""
        async with self._turns:
            return await asyncio.to_thread(_verify, stored, password)


def _verify(stored: str | None, password: str) -> bool:
    nobodys = _nobodys_hash()
    try:
        _hasher.verify(stored or nobodys, password)
    except (Argon2Error, InvalidHashError):
        return False
    return stored is not None


@cache
def _nobodys_hash() -> str:
    """Return what the password of an account that does not exist is compared with."""
    return _hasher.hash("nobody has this password")
