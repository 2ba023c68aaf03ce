"""The random parts of leaves that are sealed together come from one stored text."""

import hashlib

import pytest

from ousel.sealed_log.leaves import LeafSecrets, derive_secrets


def parts(output: bytes) -> list[LeafSecrets]:
    """Return the secrets of leaves in this output of a hash."""
    rows = [output[at : at + 48] for at in range(0, len(output), 48)]
    return [LeafSecrets(row[:16], row[16:32], row[32:]) for row in rows]


@pytest.mark.parametrize("count", [1, 2, 200])
def test_secrets_are_the_output_of_shake_256_for_a_seed(count: int) -> None:
    """A log must be readable for years, so this never changes."""
    seed = bytes(range(24))
    secrets = derive_secrets(seed, count)
    assert secrets == parts(hashlib.shake_256(seed).digest(48 * count))
    assert len({each for leaf in secrets for each in (leaf.nonce, leaf.salt("debit"))}) == 2 * count


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_log_that_was_begun_earlier_has_a_secret_of_its_own_for_each_leaf(count: int) -> None:
    """Its leaves, too, are computed again for receipts and by `ousel verify`."""
    stored = bytes(range(16 * count))
    labels = (b"nonce", b"debit", b"credit")
    expected = [
        hashlib.sha256(stored[at : at + 16] + label).digest()[:16]
        for at in range(0, len(stored), 16)
        for label in labels
    ]
    assert derive_secrets(stored, count) == parts(b"".join(expected))
