"""Cheap password hashes, so that tests do not wait."""

import pytest
from argon2 import PasswordHasher

from ousel.people import passwords


def hash_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash passwords in this process with the least memory and time."""
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(passwords, "_hasher", cheap)
    monkeypatch.setattr(passwords, "_decoy_hash", lambda: cheap.hash("nobody has this password"))
