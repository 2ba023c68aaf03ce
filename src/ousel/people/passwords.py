"""Passwords: hashed with Argon2id in threads, a few at a time."""

import asyncio
from collections.abc import Callable
from functools import cache, partial
from typing import Final, TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from ousel.kernel.cancellation import run_to_end
from ousel.kernel.concurrency import ConcurrencyLimit
from ousel.kernel.errors import Refusal
from ousel.people.rules import counted_address

HASHES_AT_ONCE: Final = 2  # each takes 64 MiB of memory
HASHES_WAITING_MAX: Final = 200
HASHES_PER_ADDRESS_MAX: Final = 20  # so that a few addresses cannot occupy the whole queue

Result = TypeVar("Result")

_hasher: Final = PasswordHasher()


class SignInBusy(Refusal):
    """More people are signing in or up at this moment than the server can handle."""

    status = 503
    code = "entrance_full"
    title = "Too many people are signing in"
    cure = "Try again in a few seconds."


class PasswordService:
    """Hashes and compares passwords."""

    def __init__(self) -> None:
        """Start with an empty queue."""
        self._turns = asyncio.Semaphore(HASHES_AT_ONCE)
        self._limit = ConcurrencyLimit(
            total_max=HASHES_WAITING_MAX, holder_max=HASHES_PER_ADDRESS_MAX
        )

    async def hash_password(self, password: str, address: str = "") -> str:
        """Return the hash to store for a password; the operator's commands have no address."""
        return await self._in_turn(address, partial(_hasher.hash, password))

    async def matches(self, stored: str | None, password: str, address: str) -> bool:
        """Return whether the password matches; this takes just as long without a stored hash."""
        return await self._in_turn(address, partial(_verify, stored, password))

    async def _in_turn(self, address: str, work: Callable[[], Result]) -> Result:
        """Run the work on a thread when it is its turn; from then on it cannot be canceled."""
        with self._limit.hold(counted_address(address)) as is_accepted:
            if not is_accepted:
                raise SignInBusy("Too many people are signing in.", retry_after_seconds=5)
            async with self._turns:
                return await run_to_end(asyncio.to_thread(work))


def _verify(stored: str | None, password: str) -> bool:
    decoy_hash = _decoy_hash()
    try:
        _hasher.verify(stored or decoy_hash, password)
    except (Argon2Error, InvalidHashError):
        return False
    return stored is not None


@cache
def _decoy_hash() -> str:
    """Return the hash that passwords are compared with when the account has none."""
    return _hasher.hash("nobody has this password")
