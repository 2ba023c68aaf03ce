"""Proof that the books balance: the whole journal replayed against every invariant.

It reads one snapshot, streams it in pages, and keeps nothing but running totals, so it may run
beside servers that write, over any number of entries.
"""

import hashlib
from collections.abc import AsyncIterator, Callable
from typing import Final

import msgspec

from ousel.database.port import Transaction
from ousel.ledger import journal
from ousel.ledger.rules import FIRST_HASH, SYSTEM_ACCOUNT_ID, Account, Entry, entry_hash

PAGE_ENTRIES: Final = 5_000
PAGE_ACCOUNTS: Final = 1_000
PAIRS_MODULUS: Final = 2**256

Progress = Callable[[int], None]


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What was read and found right."""

    entries: int
    accounts: int
    transfers: int
    issued: int  # millionths in circulation: what the system account owes


class BooksWrong(Exception):
    """The first thing that is wrong with the books, in one sentence."""


async def verify(transaction: Transaction, progress: Progress = lambda _: None) -> Figures:
    """Return the figures of the books in this snapshot, or raise the first thing wrong."""
    replay = _Replay(_journal(transaction), progress)
    balances = 0
    accounts = 0
    async for account in _accounts(transaction):
        await replay.account(account)
        balances += account.balance
        accounts += 1
    await replay.end()
    if replay.pairs:
        raise BooksWrong(await _unpaired(transaction))
    if balances != 0:
        raise BooksWrong(f"the balances of all accounts add up to {balances} millionths, not 0")
    return Figures(
        entries=replay.entries,
        accounts=accounts,
        transfers=replay.entries // 2,
        issued=replay.issued,
    )


class _Replay:
    """Walks the journal beside the accounts, both in the order of account ids."""

    def __init__(self, entries: AsyncIterator[Entry], progress: Progress) -> None:
        self._journal = entries
        self._progress = progress
        self._next: Entry | None = None
        self._started = False
        self.entries = 0
        self.issued = 0
        self.pairs = 0  # grows with each debit, shrinks by the same with its credit

    async def account(self, account: Account) -> None:
        """Replay this account's entries and compare the outcome with its row."""
        if not self._started:
            await self._advance()
            self._started = True
        if self._next is not None and self._next.account_id < account.id:
            raise BooksWrong(f"{_name(self._next)} belongs to no account")
        last = Account(
            id=account.id,
            username=account.username,
            account_number=account.account_number,
            display_name=account.display_name,
            status=account.status,
            balance=0,
            sequence=0,
            head_hash=FIRST_HASH,
            created_at=account.created_at,
            updated_at=0,
        )
        while (entry := self._next) is not None and entry.account_id == account.id:
            self._check(entry, last)
            self.pairs = (self.pairs + _pair_mark(entry)) % PAIRS_MODULUS
            await self._advance()
        _compare(account, last)
        if account.id == SYSTEM_ACCOUNT_ID:
            self.issued = -account.balance

    async def end(self) -> None:
        """Make sure that no entry is left over."""
        if self._next is not None:
            raise BooksWrong(f"{_name(self._next)} belongs to no account")

    async def _advance(self) -> None:
        self._next = await anext(self._journal, None)
        if self._next is not None:
            self.entries += 1
            if self.entries % PAGE_ENTRIES == 0:
                self._progress(self.entries)

    def _check(self, entry: Entry, last: Account) -> None:
        if entry.sequence != last.sequence + 1:
            missing = f"entry {last.sequence + 1} of account {entry.account_id}"
            raise BooksWrong(f"{missing} is missing: entry {entry.sequence} follows")
        if entry.hash != entry_hash(last.head_hash, entry):
            raise BooksWrong(f"{_name(entry)} was changed or moved: its hash does not hold")
        if entry.balance_after != last.balance + entry.amount:
            raise BooksWrong(
                f"{_name(entry)} leaves {entry.balance_after}, "
                f"but {last.balance} and {entry.amount} make {last.balance + entry.amount}"
            )
        if entry.balance_after < 0 and entry.account_id != SYSTEM_ACCOUNT_ID:
            raise BooksWrong(f"{_name(entry)} leaves a balance below zero")
        if entry.created_at < last.updated_at:
            raise BooksWrong(f"{_name(entry)} is dated before the entry that it follows")
        last.sequence = entry.sequence
        last.head_hash = entry.hash
        last.balance = entry.balance_after
        last.updated_at = entry.created_at


def _compare(account: Account, replayed: Account) -> None:
    if account.sequence > replayed.sequence:
        raise BooksWrong(
            f"entry {replayed.sequence + 1} of account {account.id} is missing: "
            f"the account counts {account.sequence} entries"
        )
    if account.sequence < replayed.sequence:
        raise BooksWrong(
            f"account {account.id} counts {account.sequence} entries, but has {replayed.sequence}"
        )
    if account.balance != replayed.balance:
        raise BooksWrong(
            f"account {account.id} has the balance {account.balance}, "
            f"but its entries make {replayed.balance}"
        )
    if account.head_hash != replayed.head_hash:
        raise BooksWrong(f"account {account.id} does not carry the hash of its last entry")


def _pair_mark(entry: Entry) -> int:
    """Return a number that the two entries of one movement have with opposite signs."""
    debit = entry.amount < 0
    sides = (entry.account_id, entry.counterparty_id)
    movement = (
        entry.transfer_id,
        abs(entry.amount),
        *(sides if debit else reversed(sides)),
        entry.kind,
        entry.note,
        entry.charge_id,
        entry.created_at,
    )
    mark = int.from_bytes(hashlib.sha256(msgspec.json.encode(movement)).digest())
    return mark if debit else -mark


async def _unpaired(transaction: Transaction) -> str:
    """Name a movement of which one side is missing or differs."""
    open_marks: dict[int, Entry] = {}
    async for entry in _journal(transaction):
        mark = _pair_mark(entry)
        if open_marks.pop(-mark, None) is None:
            open_marks[mark] = entry
    entry = min(open_marks.values(), key=lambda each: (each.created_at, each.transfer_id))
    return (
        f"{_name(entry)}, transfer {entry.transfer_id}, has no matching entry "
        f"in account {entry.counterparty_id}"
    )


async def _journal(transaction: Transaction) -> AsyncIterator[Entry]:
    account_id, sequence = "", 0
    while page := await journal.entries_after(transaction, account_id, sequence, PAGE_ENTRIES):
        for entry in page:
            yield entry
        account_id, sequence = page[-1].account_id, page[-1].sequence


async def _accounts(transaction: Transaction) -> AsyncIterator[Account]:
    after = ""
    while page := await journal.accounts_after(transaction, after, PAGE_ACCOUNTS):
        for account in page:
            yield account
        after = page[-1].id


def _name(entry: Entry) -> str:
    return f"entry {entry.sequence} of account {entry.account_id}"
