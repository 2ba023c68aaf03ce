"""A ledger to tamper with, and what an attacker with raw SQL could do to it."""

from collections.abc import Callable

import msgspec
import pytest

from ousel.database.port import Database
from ousel.kernel.clock import system_clock
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import FIRST_HASH, Account, Entry, entry_hash
from ousel.ledger.verify import VerificationFailed, verify_database
from tests.ledger.examples import posting
from tests.support.accounts import person
from tests.support.raw_sql import RawSql

ENTRY_COLUMNS = ", ".join(Entry.__struct_fields__)


class People(msgspec.Struct, frozen=True):
    """Two people who were funded and then sent each other ten transfers."""

    ada: Account
    bob: Account


async def ledger_with_people(database: Database) -> People:
    """Write 24 entries, 2 of the system account and 11 of each person; return the two people."""
    ada, bob = await person(database, "ada", "1"), await person(database, "bob", "1")
    queue = PostingQueue(database, system_clock, queue_limit=100)
    for number in range(10):
        sender, to = (ada, "@bob") if number % 2 else (bob, "@ada")
        await queue.post(posting(sender.id, to, 10 + number, note=f"number {number}"))
    return People(ada, bob)


async def verification_error(database: Database) -> str:
    """Return the error that verification finds."""
    with pytest.raises(VerificationFailed) as found:
        await database.snapshot(verify_database)
    return str(found.value)


async def read_entries(raw_sql: RawSql, account_id: str) -> list[Entry]:
    rows = await raw_sql.run(
        f"SELECT {ENTRY_COLUMNS} FROM entries WHERE account_id = ? ORDER BY sequence", account_id
    )
    return [Entry(*row) for row in rows]


async def forge_history(
    raw_sql: RawSql, account_id: str, change: Callable[[list[Entry]], list[Entry]]
) -> None:
    """Change an account's history, and adapt every number, balance, hash and date to it."""
    changed = change(await read_entries(raw_sql, account_id))
    await raw_sql.run("DELETE FROM entries WHERE account_id = ?", account_id)
    balance, head = 0, FIRST_HASH
    for number, entry in enumerate(changed, 1):
        balance += entry.amount
        fitted = msgspec.structs.replace(entry, sequence=number, balance_after=balance)
        head = entry_hash(head, fitted)
        await _insert_entry(raw_sql, msgspec.structs.replace(fitted, hash=head))
    await raw_sql.run(
        "UPDATE accounts SET balance = ?, sequence = ?, head_hash = ?,"
        " updated_at = COALESCE(?, created_at) WHERE id = ?",
        balance,
        len(changed),
        head,
        changed[-1].created_at if changed else None,
        account_id,
    )


async def move_entries(raw_sql: RawSql, account_id: str, stranger: str) -> None:
    """Give all entries of an account to another one; Citus cannot update their account."""
    entries = await read_entries(raw_sql, account_id)
    await raw_sql.run("DELETE FROM entries WHERE account_id = ?", account_id)
    for entry in entries:
        await _insert_entry(raw_sql, msgspec.structs.replace(entry, account_id=stranger))


async def _insert_entry(raw_sql: RawSql, entry: Entry) -> None:
    row = msgspec.structs.astuple(entry)
    marks = ", ".join("?" for _ in row)
    await raw_sql.run(f"INSERT INTO entries ({ENTRY_COLUMNS}) VALUES ({marks})", *row)
