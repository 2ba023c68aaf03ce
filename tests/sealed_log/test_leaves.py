"""The random parts of leaves that are sealed together come from one stored text."""

import hashlib

import pytest

from ousel.database.port import Database
from ousel.ledger.places import Place, decode_places
from ousel.ledger.rules import Entry
from ousel.sealed_log import store
from ousel.sealed_log.leaves import LeafSecrets, derive_older_secrets, derive_secrets
from ousel.sealed_log.notes import to_base64
from tests.support.raw_sql import RawSql


def parts(output: bytes) -> list[LeafSecrets]:
    """Return the secrets of leaves in this output of a hash."""
    rows = [output[at : at + 48] for at in range(0, len(output), 48)]
    return [LeafSecrets(row[:16], row[16:32], row[32:]) for row in rows]


@pytest.mark.parametrize("count", [1, 2, 200])
def test_secrets_are_the_output_of_shake_256_for_a_seed(count: int) -> None:
    """A log must be readable for years, so this never changes."""
    seed = bytes(range(32))
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
    assert derive_older_secrets(stored) == parts(b"".join(expected))


async def test_both_forms_of_stored_secrets_are_read(database: Database, raw_sql: RawSql) -> None:
    """A row with one secret for each leaf has no mark; its leaves stay valid."""
    drawn, seed = bytes(range(32)), bytes(range(32, 64))
    rows = [(2, 5, "acct_c:1:acct_a:2", seed)]
    await database.write(lambda transaction: store.add_batches(transaction, rows))
    await raw_sql.run(
        "INSERT INTO sealed_batches (first_index, created_at, movements, secrets)"
        " VALUES (0, 5, 'acct_a:1:acct_b:1 acct_b:2:acct_c:3', ?)",
        to_base64(drawn),
    )

    found = await database.read(lambda transaction: store.sealed_from(transaction, 0, 10))

    secrets = [each.secrets for each in found]
    assert secrets == [*derive_older_secrets(drawn), *derive_secrets(seed, 1)]


async def test_only_the_row_of_an_entry_is_decoded(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a clock was set back, thousands of movements have the same date."""
    rows = [(at, 5, f"acct_a:{at + 1}:acct_b:{at + 1}", bytes(32)) for at in range(100)]
    await database.write(lambda transaction: store.add_batches(transaction, rows))
    decoded: list[str] = []

    def decode(text: str) -> list[Place]:
        decoded.append(text)
        return decode_places(text)

    monkeypatch.setattr(store, "decode_places", decode)
    entry = Entry("acct_b", 42, "tr_1", "transfer", 1, 1, "acct_a", None, None, None, 5, "")

    found = await database.read(lambda transaction: store.sealed_movements_of(transaction, [entry]))

    assert found["acct_b", 42].index == 41
    assert decoded == ["acct_a:42:acct_b:42"]
