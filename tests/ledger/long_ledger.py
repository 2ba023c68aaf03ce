"""A ledger with one very long history, written quickly: account by account, in key order."""

import hashlib
import sqlite3
from collections.abc import Iterator
from typing import Any, Final

import asyncpg
import msgspec

from ousel.database.addresses import is_postgres, sqlite_path
from ousel.database.statements import Table
from ousel.kernel.account_numbers import account_number
from ousel.ledger.journal import ACCOUNTS, ENTRIES
from ousel.ledger.rules import FIRST_HASH, SYSTEM_ACCOUNT_ID
from tests.faults.sizes import sized

PARTNER_ENTRIES: Final = sized(30_000, 1_000_000)
PEOPLE: Final = 100
BEGIN: Final = 1_767_225_600_000_000
MICROS_BETWEEN: Final = 1_000
FUNDS: Final = 10**15

Row = tuple[Any, ...]

PARTNER_ID: Final = "acct_" + "1" * 26
PEOPLE_IDS: Final = [f"acct_2{number:025d}" for number in range(PEOPLE)]

_encode = msgspec.json.Encoder().encode


class AccountHistory:
    """Makes an account's entries, one after the other, and finally its own row."""

    def __init__(self, account_id: str, username: str, serial: int) -> None:
        self._names = (account_id, username, account_number(serial), username.title(), "active")
        self._id = account_id
        self._balance = 0
        self._sequence = 0
        self._hash = FIRST_HASH
        self._updated_at = 0

    def entry(self, number: int, kind: str, amount: int, counterparty_id: str) -> Row:
        """Return the row of this account's side of a movement."""
        self._sequence += 1
        self._balance += amount
        self._updated_at = BEGIN + number * MICROS_BETWEEN
        fields = (
            self._id,
            self._sequence,
            f"tr_{number:026d}",
            kind,
            amount,
            self._balance,
            counterparty_id,
            None,
            None,
            None,
            self._updated_at,
        )
        self._hash = hashlib.sha256(self._hash.encode() + _encode(fields)).hexdigest()
        return (*fields, self._hash)

    def account(self) -> Row:
        """Return the account's own row as its last entry left it."""
        head = (self._balance, self._sequence, self._hash, 0, self._updated_at)
        return (*self._names, *head)


class LongLedger:
    """A partner is funded once and sends a millionth to each of a hundred people in turn."""

    def __init__(self, entries: int) -> None:
        self._entries = entries
        self._system = AccountHistory(SYSTEM_ACCOUNT_ID, "ousel", 0)
        self._partner = AccountHistory(PARTNER_ID, "partner", 1)
        self._people = [
            AccountHistory(account_id, f"person{number:03d}", number + 2)
            for number, account_id in enumerate(PEOPLE_IDS)
        ]

    def entries(self) -> Iterator[Row]:
        """Yield every entry in the order of accounts and sequences."""
        yield self._system.entry(0, "funding", -FUNDS, PARTNER_ID)
        yield self._partner.entry(0, "funding", FUNDS, SYSTEM_ACCOUNT_ID)
        for number in range(1, self._entries):
            yield self._partner.entry(number, "transfer", -1, PEOPLE_IDS[number % PEOPLE])
        for first, person in enumerate(self._people):
            for number in range(first or PEOPLE, self._entries, PEOPLE):
                yield person.entry(number, "transfer", 1, PARTNER_ID)

    def accounts(self) -> list[Row]:
        """Return every account as the entries left it."""
        return [chain.account() for chain in (self._system, self._partner, *self._people)]


async def fill(url: str, entries: int = PARTNER_ENTRIES) -> None:
    """Fill a fresh database with a ledger whose partner has this many entries."""
    ledger = LongLedger(entries)
    if is_postgres(url):
        await _fill_postgres(url, ledger)
    else:
        _fill_sqlite(url, ledger)


async def _fill_postgres(url: str, ledger: LongLedger) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("ALTER TABLE entries SET UNLOGGED")
    async with connection.transaction():
        await connection.execute("DELETE FROM accounts")
        await connection.copy_records_to_table(
            "entries", records=ledger.entries(), columns=ENTRIES.names
        )
        await connection.copy_records_to_table(
            "accounts", records=ledger.accounts(), columns=ACCOUNTS.names
        )
    await connection.execute("VACUUM ANALYZE")
    await connection.close()


def _fill_sqlite(url: str, ledger: LongLedger) -> None:
    connection = sqlite3.connect(sqlite_path(url), isolation_level=None)
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -100000"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("BEGIN")
    connection.execute("DELETE FROM accounts")
    connection.executemany(_insert(ENTRIES), ledger.entries())
    connection.executemany(_insert(ACCOUNTS), ledger.accounts())
    connection.execute("COMMIT")
    connection.close()


def _insert(table: Table) -> str:
    marks = ", ".join("?" for _ in table.names)
    return f"INSERT INTO {table.name} ({', '.join(table.names)}) VALUES ({marks})"
