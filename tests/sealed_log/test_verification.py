"""Verification finds what an attacker with raw SQL does to a ledger that is sealed."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, cast

import msgspec
import pytest

from ousel.cli.verification import verify_everything
from ousel.database.port import Row, Transaction
from ousel.database.statements import Statement
from ousel.ledger.journal import ACCOUNTS_BY_ID
from ousel.ledger.movements import ENTRIES_AT
from ousel.ledger.rules import Account
from ousel.ledger.verify import VerificationFailed, verify_database
from ousel.sealed_log import store, verification
from ousel.sealed_log.backfill import BackfillSearch
from ousel.sealed_log.checkpoints import Checkpoint
from ousel.sealed_log.keys import new_key
from ousel.sealed_log.notes import to_base64
from ousel.sealed_log.tiles import TileKey
from ousel.sealed_log.verification import (
    parse_signed_checkpoint,
    verify_log,
    verify_since,
)
from tests.ledger.examples import posting
from tests.ledger.tampering import forge_history
from tests.sealed_log.logs import Log
from tests.support.accounts import person
from tests.support.raw_sql import RawSql


class Books(NamedTuple):
    """A sealed ledger, and a checkpoint that somebody kept when it had six leaves."""

    log: Log
    since: Checkpoint
    ada: Account
    bob: Account

    async def error(self) -> str:
        """Return what a full verification finds."""
        with pytest.raises(VerificationFailed) as found:
            await self.log.database.snapshot(
                lambda transaction: verify_everything(transaction, log_key=self.log.key_holder.key)
            )
        return str(found.value)

    async def error_since(self) -> str:
        """Return what a verification since the old checkpoint finds."""
        with pytest.raises(VerificationFailed) as found:
            await self.log.database.snapshot(
                lambda transaction: verify_since(transaction, self.since, self.log.key_holder.key)
            )
        return str(found.value)


@pytest.fixture
async def books(log: Log) -> Books:
    """Twelve movements, all sealed."""
    ada, bob = await person(log.database, "ada", "1"), await person(log.database, "bob", "1")
    for _ in range(4):
        await log.queue.post(posting(ada.id, "@bob", 10, note="tea"))
    await log.sealer.seal_all()
    since = await log.checkpoint()
    for _ in range(6):
        await log.queue.post(posting(bob.id, "@ada", 7, note="cake"))
    await log.sealer.seal_all()
    return Books(log, since, ada, bob)


@pytest.mark.parametrize("column", ["movements", "secrets"])
async def test_a_row_of_the_log_that_cannot_be_read_is_found(
    books: Books, raw_sql: RawSql, column: str
) -> None:
    """Both in the whole log and in what came after a checkpoint."""
    await raw_sql.run(f"UPDATE sealed_batches SET {column} = 'x'")
    assert await books.error() == "leaf 0 of the log, or a later one, is malformed"
    assert await books.error_since() == "leaf 6 of the log, or a later one, is malformed"


async def test_a_ledger_and_its_log_prove_each_other(books: Books) -> None:
    """The whole log, and what came after a checkpoint."""
    database, key = books.log.database, books.log.key_holder.key
    assert await database.snapshot(lambda transaction: verify_log(transaction, key)) == 12
    added = await database.snapshot(lambda each: verify_since(each, books.since, key))
    assert added == 6
    newest = await books.log.checkpoint()
    assert await database.snapshot(lambda each: verify_since(each, newest, key)) == 0
    empty = await database.snapshot(
        lambda each: verify_since(each, Checkpoint("x", 0, _EMPTY), key)
    )
    assert empty == 12


_EMPTY = bytes.fromhex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")


async def test_movements_that_are_not_sealed_yet_are_counted(books: Books) -> None:
    """They are no error: the sealer comes later."""
    await books.log.queue.post(posting(books.ada.id, "@bob", 1))
    _, counts = await books.log.database.snapshot(verify_everything)

    assert counts == {"charges_paid": 0, "leaves": 12, "unsealed": 1}
    added = await books.log.database.snapshot(
        lambda each: verify_since(each, books.since, books.log.key_holder.key)
    )
    assert added == 6


async def erase_last_movement(books: Books, raw_sql: RawSql) -> None:
    """Erase the newest movement, and fix both accounts: the hashes of the ledger stay correct."""
    for account in (books.ada, books.bob):
        await forge_history(raw_sql, account.id, lambda entries: entries[:-1])


async def reorder_leaves(_: Books, raw_sql: RawSql) -> None:
    """Exchange the places of two leaves."""
    for old, new in ((10, -1), (11, 10), (-1, 11)):
        await raw_sql.run(
            "UPDATE sealed_batches SET first_index = ? WHERE first_index = ?", new, old
        )


async def seal_twice(_: Books, raw_sql: RawSql) -> None:
    """Let two leaves stand for one movement."""
    await raw_sql.run(
        "UPDATE sealed_batches SET movements ="
        " (SELECT movements FROM sealed_batches WHERE first_index = 11) WHERE first_index = 10"
    )


async def change_tile(books: Books, raw_sql: RawSql) -> None:
    """Replace the hashes that the log publishes."""
    tiles = await books.log.database.read(lambda each: store.read_tiles(each, {TileKey(0, 0)}))
    [hashes] = tiles.values()
    changed = to_base64(hashes[:-1] + bytes([hashes[-1] ^ 1]))
    await raw_sql.run("UPDATE sealed_tiles SET hashes = ?", changed)


async def spoil_tiles(_: Books, raw_sql: RawSql) -> None:
    """Replace the hashes that the log publishes by something that is not Base64."""
    await raw_sql.run("UPDATE sealed_tiles SET hashes = 'x'")


async def shorten_log(_: Books, raw_sql: RawSql) -> None:
    """Remove the last leaf, as a restored backup would."""
    await raw_sql.run("DELETE FROM sealed_batches WHERE first_index = 11")
    await raw_sql.run("UPDATE sealed_log SET size = 11")


async def forge_checkpoint(books: Books, raw_sql: RawSql) -> None:
    """Sign the log with another key."""
    root = (await books.log.checkpoint()).root
    forged = new_key("pay.example/log").sign_checkpoint(12, root)
    await raw_sql.run("UPDATE sealed_log SET checkpoint = ?", forged)


Attack = Callable[[Books, RawSql], Awaitable[None]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attack", "found"),
    [
        (erase_last_movement, "leaf 11 of the log is missing, or its movement has been removed"),
        (reorder_leaves, "does not match the movements"),
        (seal_twice, "does not match the movements"),
        (change_tile, "does not match the movements"),
        (spoil_tiles, "a tile of the log is malformed"),
        (shorten_log, "the checkpoint of the log does not match its leaves"),
        (forge_checkpoint, "another key has signed the log"),
    ],
)
async def test_an_attack_on_the_log_is_found(
    books: Books, raw_sql: RawSql, attack: Attack, found: str
) -> None:
    """By the full verification, and by one that begins at an old checkpoint."""
    await attack(books, raw_sql)

    assert found in await books.error()
    assert await books.error_since()


async def test_the_ledger_alone_does_not_notice_an_erased_movement(
    books: Books, raw_sql: RawSql
) -> None:
    """Without the log, whoever can write to the database could erase the newest movement."""
    await erase_last_movement(books, raw_sql)
    await books.log.database.snapshot(verify_database)


async def test_a_rewritten_log_does_not_extend_a_kept_checkpoint(
    books: Books, raw_sql: RawSql
) -> None:
    """Even if the attacker has the key and seals everything again."""
    for table in ("sealed_batches", "sealed_tiles", "sealed_log"):
        await raw_sql.run(f"DELETE FROM {table}")
    await BackfillSearch(books.log.database).search()
    await books.log.another_process().seal_all()
    await books.log.assert_complete()

    assert "with 6 leaves, it has another root" in await books.error_since()


async def test_a_shorter_log_does_not_extend_a_kept_checkpoint(
    books: Books, raw_sql: RawSql
) -> None:
    """A restored backup lacks what was sealed after it."""
    newest = await books.log.checkpoint()
    await shorten_log(books, raw_sql)
    with pytest.raises(VerificationFailed, match="leaves have been removed"):
        await books.log.database.snapshot(
            lambda transaction: verify_since(transaction, newest, books.log.key_holder.key)
        )


async def test_an_entry_after_the_checkpoint_is_replayed(books: Books, raw_sql: RawSql) -> None:
    """A changed note changes the leaf; a changed balance of the account is found too."""
    await raw_sql.run("UPDATE accounts SET balance = balance + 1 WHERE id = ?", books.ada.id)
    assert "has the balance" in await books.error_since()


@pytest.mark.parametrize("change", ["hash = 'x'", "created_at = 9000000000000000000"])
async def test_an_entry_after_the_checkpoint_that_cannot_be_read_is_found(
    books: Books, raw_sql: RawSql, change: str
) -> None:
    """Its hash is not hexadecimal, or its date is after the year 9999."""
    await raw_sql.run(f"UPDATE entries SET {change} WHERE note = 'cake'")
    assert await books.error_since() == "the movement of leaf 6 of the log is malformed"


class CountingTransaction(msgspec.Struct):
    """Counts how many entries or accounts each statement asks for."""

    transaction: Transaction
    counts: list[int]

    async def fetch(self, statement: Statement, **parameters: Any) -> list[Row]:
        """Run the statement and return all its rows."""
        if statement in (ENTRIES_AT, ACCOUNTS_BY_ID):
            self.counts += map(len, parameters.values())
        return await self.transaction.fetch(statement, **parameters)


async def test_what_comes_before_new_entries_is_read_in_parts(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One statement for all of them would take too long in a large log."""
    monkeypatch.setattr(verification, "MOVEMENTS_PER_CHECK", 4)
    counts: list[int] = []

    async def verify(transaction: Transaction) -> int:
        counting = cast("Transaction", CountingTransaction(transaction, counts))
        return await verify_since(counting, books.since, books.log.key_holder.key)

    assert await books.log.database.snapshot(verify) == 6
    assert counts == [8, 2, 4, 2]  # each movement has two entries, of the same two accounts


@pytest.mark.parametrize("note", ["", "pay.example/log\n1\nAAAA\n", "x\n\n— x AAAA\n"])
def test_a_file_without_a_checkpoint_is_refused(note: str) -> None:
    """In one sentence."""
    with pytest.raises(VerificationFailed, match="the checkpoint is not one of this log"):
        parse_signed_checkpoint(note, None)


def test_a_checkpoint_of_another_key_is_refused() -> None:
    """Somebody else's log does not say anything about this one."""
    checkpoint = new_key("pay.example/log").sign_checkpoint(0, _EMPTY)
    with pytest.raises(VerificationFailed, match="another key"):
        parse_signed_checkpoint(checkpoint, new_key("pay.example/log"))
