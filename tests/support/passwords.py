"""Cheap password hashes, so that tests do not wait."""

import pytest
from argon2 import PasswordHasher

from ousel.people import passwords

QUICK_HASHER = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


def hash_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash passwords in this process with the least memory and time."""
    decoy = QUICK_HASHER.hash("nobody has this password")
    monkeypatch.setattr(passwords, "_hasher", QUICK_HASHER)
    monkeypatch.setattr(passwords, "_decoy_hash", lambda: decoy)
