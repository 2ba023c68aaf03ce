"""Passwords: Argon2id, off the event loop, a few at a time."""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from typing import Final, TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from ousel.kernel.errors import Refusal
from ousel.people.rules import counted_address

HASHES_AT_ONCE: Final = 2  # each takes 64 MiB for its while
HASHES_WAITING_MAX: Final = 200
HASHES_OF_ADDRESS_MAX: Final = 100  # so that nobody who comes alone takes all the places

Result = TypeVar("Result")

_hasher: Final = PasswordHasher()


class SignInBusy(Refusal):
    """More people are signing in or up at this moment than the server takes on."""

    status = 503
    code = "entrance_full"
    title = "Too many people are signing in"
    cure = "Try again in a few seconds."


class PasswordService:
    """Hashes and compares passwords."""

    def __init__(self) -> None:
        """Take turns from the start."""
        self._turns = asyncio.Semaphore(HASHES_AT_ONCE)
        self._waiting: Counter[str] = Counter()  # by the address that they come from

    async def hash_password(self, password: str, address: str = "") -> str:
        """Return what is stored of a password; the operator's comes from no address."""
        return await self._in_turn(address, partial(_hasher.hash, password))

    async def matches(self, stored: str | None, password: str, address: str) -> bool:
        """Say whether the password is the one; where there is none, take as long to say no."""
        return await self._in_turn(address, partial(_verify, stored, password))

    async def _in_turn(self, address: str, work: Callable[[], Result]) -> Result:
        place = counted_address(address)
        if (
            self._waiting.total() >= HASHES_WAITING_MAX
            or self._waiting[place] >= HASHES_OF_ADDRESS_MAX
        ):
            raise SignInBusy("Too many people are signing in.", retry_after_seconds=5)
        self._waiting[place] += 1
        try:
            async with self._turns:
                return await asyncio.to_thread(work)
        finally:
            self._waiting[place] -= 1
            self._waiting += Counter()  # lets go of addresses from which nobody waits


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
