"""Verification finds every error in the ledger and names the entry and the account."""

import re
from functools import partial

import msgspec
import pytest

from ousel.database.port import Database
from ousel.ledger.bucket_sums import BucketSums
from ousel.ledger.rules import FIRST_HASH, SYSTEM_ACCOUNT_ID, Entry, entry_hash
from tests.ledger.tampering import (
    People,
    forge_history,
    move_entries,
    read_entries,
    verification_error,
)
from tests.support.accounts import person, verify
from tests.support.raw_sql import RawSql

UNPAIRED = re.compile(
    r"entry (\d+) of account (\w+), transfer (\w+), has no matching entry in account (\w+)"
)
CHANGES = {
    "amount": 5,
    "balance_after": 5,
    "note": "changed",
    "counterparty_id": "acct_other",
    "transfer_id": "tr_other",
    "created_at": 5,
    "kind": "charge_payment",
    "idempotency_key": "k",
    "charge_id": "ch_1",
    "hash": "0" * 64,
}


async def test_a_changed_entry_is_named(
    database: Database, people: People, raw_sql: RawSql
) -> None:
    """Whichever field of whichever entry was changed, the error names entry and account."""
    before = await read_entries(raw_sql, people.bob.id)
    for column, value in CHANGES.items():
        update = f"UPDATE entries SET {column} = ? WHERE account_id = ? AND sequence = ?"
        for sequence in (1, 6, 11):
            await raw_sql.run(update, value, people.bob.id, sequence)

            assert (await verification_error(database)).startswith(
                f"entry {sequence} of account {people.bob.id} was changed or moved"
            ), column

            real = getattr(before[sequence - 1], column)
            await raw_sql.run(update, real, people.bob.id, sequence)
    await verify(database)


@pytest.mark.parametrize("sequence", [1, 6, 10])
async def test_a_deleted_entry_is_named(
    database: Database, people: People, raw_sql: RawSql, sequence: int
) -> None:
    """A missing entry shows in the number of the next one."""
    await raw_sql.run(
        "DELETE FROM entries WHERE account_id = ? AND sequence = ?", people.ada.id, sequence
    )

    assert await verification_error(database) == (
        f"entry {sequence} of account {people.ada.id} is missing: entry {sequence + 1} follows"
    )


async def test_a_deleted_last_entry_is_named(
    database: Database, people: People, raw_sql: RawSql
) -> None:
    """If the last entry is missing, the account's count shows it."""
    await raw_sql.run("DELETE FROM entries WHERE account_id = ? AND sequence = 11", people.ada.id)

    assert await verification_error(database) == (
        f"entry 11 of account {people.ada.id} is missing: the account counts 11 entries"
    )


async def test_all_entries_of_an_account_deleted_is_named(
    database: Database, people: People, raw_sql: RawSql
) -> None:
    """If all entries are missing, the error names the first one."""
    await raw_sql.run("DELETE FROM entries WHERE account_id = ?", people.bob.id)

    assert await verification_error(database) == (
        f"entry 1 of account {people.bob.id} is missing: the account counts 11 entries"
    )


async def test_a_swapped_pair_is_named(database: Database, people: People, raw_sql: RawSql) -> None:
    """If two entries were swapped, the error names the first of the two."""
    for old, new in ((4, -4), (7, 4), (-4, 7)):
        await raw_sql.run(
            "UPDATE entries SET sequence = ? WHERE account_id = ? AND sequence = ?",
            new,
            people.ada.id,
            old,
        )

    assert (await verification_error(database)).startswith(
        f"entry 4 of account {people.ada.id} was changed or moved"
    )


async def test_a_wrong_balance_is_named(
    database: Database, people: People, raw_sql: RawSql
) -> None:
    """If a balance differs from its entries, the error names the account and both amounts."""
    real = (await read_entries(raw_sql, people.bob.id))[-1].balance_after
    await raw_sql.run("UPDATE accounts SET balance = balance + 1 WHERE id = ?", people.bob.id)

    assert await verification_error(database) == (
        f"account {people.bob.id} has the balance {real + 1},"
        f" but its last entry, 11, leaves {real} millionths"
    )


async def test_a_wrong_count_or_head_is_named(
    database: Database, people: People, raw_sql: RawSql
) -> None:
    """An account may count too few entries, or have another hash than its last entry."""
    await raw_sql.run("UPDATE accounts SET sequence = 9 WHERE id = ?", people.bob.id)
    assert (
        await verification_error(database)
        == f"account {people.bob.id} counts 9 entries, but has 11"
    )

    await raw_sql.run(
        "UPDATE accounts SET sequence = 11, head_hash = ? WHERE id = ?", FIRST_HASH, people.bob.id
    )
    assert await verification_error(database) == (
        f"account {people.bob.id} does not have the hash of its last entry"
    )


async def test_a_wrong_date_of_an_account_is_named(
    database: Database, people: People, raw_sql: RawSql
) -> None:
    """If it is in the future, the account can neither send nor receive money.

    An account without entries has the date on which it was opened.
    """
    new = await person(database, "new")
    for account_id, event in ((people.bob.id, "its last entry"), (new.id, "its opening")):
        change = "UPDATE accounts SET updated_at = updated_at + ? WHERE id = ?"
        await raw_sql.run(change, 1, account_id)

        assert await verification_error(database) == (
            f"account {account_id} does not have the date of {event}"
        )
        await raw_sql.run(change, -1, account_id)


@pytest.mark.parametrize("place", ["before all", "between", "after all"])
async def test_an_entry_of_no_account_is_named(
    database: Database, people: People, raw_sql: RawSql, place: str
) -> None:
    """Entries whose account does not exist are found wherever they sort."""
    stranger = {"before all": "acct_", "between": f"{people.ada.id}x", "after all": "acct_zz"}[
        place
    ]
    await move_entries(raw_sql, people.bob.id, stranger)
    await raw_sql.run("DELETE FROM accounts WHERE id = ?", people.bob.id)

    assert (
        await verification_error(database) == f"entry 1 of account {stranger} belongs to no account"
    )


async def test_a_missing_other_side_is_named(
    database: Database, people: People, raw_sql: RawSql
) -> None:
    """If one entry of a movement was removed and all hashes adapted, the other one is named."""
    gone = (await read_entries(raw_sql, people.bob.id))[5]
    await forge_history(
        raw_sql, people.bob.id, lambda before: [each for each in before if each != gone]
    )

    sentence = await verification_error(database)

    twin = next(
        each
        for each in await read_entries(raw_sql, people.ada.id)
        if each.transfer_id == gone.transfer_id
    )
    assert sentence == (
        f"entry {twin.sequence} of account {people.ada.id}, transfer {gone.transfer_id}, "
        f"has no matching entry in account {people.bob.id}"
    )


async def test_only_an_unpaired_entry_is_named(
    database: Database, people: People, raw_sql: RawSql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier movements that only look suspicious are compared, and not named."""
    monkeypatch.setattr(BucketSums, "may_mismatch", lambda *_: True)
    gone = (await read_entries(raw_sql, people.bob.id))[-1]
    await forge_history(raw_sql, people.bob.id, lambda before: before[:-1])

    named = UNPAIRED.fullmatch(await verification_error(database))

    assert named is not None
    assert named[3] == gone.transfer_id


def _with_last(last: Entry, before: list[Entry]) -> list[Entry]:
    return [*before[:-1], last]


DIFFERENCES = {
    "amount": 1,
    "note": "changed",
    "kind": "charge_payment",
    "charge_id": "ch_1",
    "created_at": 2**60,
    "transfer_id": "tr_other",
    "counterparty_id": SYSTEM_ACCOUNT_ID,
}


async def test_a_different_other_side_is_named(
    database: Database, people: People, raw_sql: RawSql
) -> None:
    """If one entry of a movement was changed and all hashes adapted, one of the two is named."""
    real = await read_entries(raw_sql, people.bob.id)
    for field, value in DIFFERENCES.items():
        changed = msgspec.structs.replace(real[-1], **{field: value})
        await forge_history(raw_sql, people.bob.id, partial(_with_last, changed))

        named = UNPAIRED.fullmatch(await verification_error(database))

        assert named is not None, field
        assert int(named[1]) == 11
        assert named[2] in {people.ada.id, people.bob.id}
        assert named[3] in {real[-1].transfer_id, changed.transfer_id}
    await forge_history(raw_sql, people.bob.id, lambda _: real)
    await verify(database)


async def test_a_movement_out_of_nothing_is_named(
    database: Database, people: People, raw_sql: RawSql
) -> None:
    """An added entry with adapted hashes has no matching entry."""
    first = (await read_entries(raw_sql, people.bob.id))[0]
    extra = msgspec.structs.replace(first, transfer_id="tr_extra", amount=7, created_at=2**60)

    await forge_history(raw_sql, people.bob.id, lambda before: [*before, extra])

    assert await verification_error(database) == (
        f"entry 12 of account {people.bob.id}, transfer tr_extra, has no matching entry "
        f"in account {SYSTEM_ACCOUNT_ID}"
    )


async def test_a_balance_below_zero_is_named(
    database: Database, people: People, raw_sql: RawSql
) -> None:
    """A forged history that temporarily overdraws an account is found."""

    def overdrawn(before: list[Entry]) -> list[Entry]:
        return [*before[1:], before[0]]

    await forge_history(raw_sql, people.bob.id, overdrawn)

    assert (
        await verification_error(database)
        == f"entry 1 of account {people.bob.id} leaves a balance below zero"
    )


async def test_a_history_that_goes_back_in_time_is_named(
    database: Database, people: People, raw_sql: RawSql
) -> None:
    """A forged order of entries shows in their dates."""
    await raw_sql.run("UPDATE accounts SET balance = 0 WHERE id = ?", people.bob.id)

    def swapped(before: list[Entry]) -> list[Entry]:
        return [*before[:5], before[6], before[5], *before[7:]]

    await forge_history(raw_sql, people.bob.id, swapped)

    assert await verification_error(database) == (
        f"entry 7 of account {people.bob.id} is dated before the entry that it follows"
    )


async def test_an_entry_that_does_not_add_up_is_named(
    database: Database, people: People, raw_sql: RawSql
) -> None:
    """A balance that does not follow from the last one is found even if its hash is correct."""
    before = (await read_entries(raw_sql, people.bob.id))[-2:]
    changed = msgspec.structs.replace(before[1], balance_after=before[1].balance_after + 1)
    await raw_sql.run(
        "UPDATE entries SET balance_after = ?, hash = ? WHERE account_id = ? AND sequence = 11",
        changed.balance_after,
        entry_hash(before[0].hash, changed),
        people.bob.id,
    )

    assert (await verification_error(database)).startswith(
        f"entry 11 of account {people.bob.id} leaves the balance {changed.balance_after}, but "
    )


async def test_balances_that_do_not_add_up_to_zero_are_found(
    database: Database, people: People, raw_sql: RawSql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If two different entries were ever taken for a pair, the sum of all balances shows it."""
    monkeypatch.setattr("ousel.ledger.verify._movement_fields", lambda _: 1)
    last = (await read_entries(raw_sql, people.bob.id))[-1]
    more = msgspec.structs.replace(last, amount=last.amount + 1)

    await forge_history(raw_sql, people.bob.id, lambda before: [*before[:-1], more])

    assert (
        await verification_error(database)
        == "the balances of all accounts add up to 1 millionths, not 0"
    )


async def test_one_transfer_with_two_debits_is_named(
    database: Database, people: People, raw_sql: RawSql
) -> None:
    """A movement that was written twice under one id is found, although all its entries pair."""
    twice = (await read_entries(raw_sql, people.ada.id))[-1]
    for each in (people.ada, people.bob):
        await forge_history(raw_sql, each.id, lambda before: [*before, before[-1]])

    sender = people.ada if twice.amount < 0 else people.bob
    assert await verification_error(database) == (
        f"transfer {twice.transfer_id} has two debits: entry 11 of account {sender.id}"
        f" and entry 12 of account {sender.id}"
    )
