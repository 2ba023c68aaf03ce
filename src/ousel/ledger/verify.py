"""Verification, which recomputes the whole journal: its hashes, balances, dates and movements.

It reads one snapshot page by page and keeps little more than running totals in memory, so it can
run while servers write, over any number of entries.
"""

from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, Protocol

import msgspec

from ousel.database.port import Transaction
from ousel.kernel.errors import OperatorError
from ousel.ledger import journal
from ousel.ledger.bucket_sums import BucketSums
from ousel.ledger.duplicate_finder import DuplicateFinder
from ousel.ledger.rules import FIRST_HASH, SYSTEM_ACCOUNT_ID, Account, Entry, entry_hash

PAGE_ENTRIES: Final = 5_000
PAGE_ACCOUNTS: Final = 1_000

# All other kinds move money between an account and the system account.
_KINDS_BETWEEN_PEOPLE: Final = frozenset({"transfer", "charge_payment"})

Progress = Callable[[int], None]
EntryObserver = Callable[[Sequence[Entry]], None]


class LedgerSource(Protocol):
    """Accounts and entries, both in the order of account ids; both can be read several times."""

    def accounts(self) -> AsyncIterator[Account]:
        """Return the accounts, each with its balance and its last entry's number and hash."""
        ...

    def entries(self) -> AsyncIterator[list[Entry]]:
        """Return the whole journal, page by page."""
        ...


class VerifiedTotals(msgspec.Struct, frozen=True, kw_only=True):
    """What was read and found correct."""

    entries: int
    accounts: int
    transfers: int
    issued: int  # millionths in circulation: what the system account owes


class VerificationFailed(OperatorError):
    """The ledger has an error; the message describes the first one that was found."""


class DatabaseLedger:
    """The ledger in one snapshot of a database."""

    def __init__(self, transaction: Transaction) -> None:
        """Read the ledger in this transaction."""
        self._transaction = transaction

    async def accounts(self) -> AsyncIterator[Account]:
        """Return the accounts."""
        after = ""
        while page := await journal.accounts_after(self._transaction, after, PAGE_ACCOUNTS):
            for account in page:
                yield account
            after = page[-1].id

    async def entries(self) -> AsyncIterator[list[Entry]]:
        """Return the whole journal, page by page."""
        account_id, sequence = "", 0
        while page := await journal.entries_after(
            self._transaction, account_id, sequence, PAGE_ENTRIES
        ):
            yield page
            account_id, sequence = page[-1].account_id, page[-1].sequence


async def verify_database(
    transaction: Transaction,
    progress: Progress = lambda _: None,
    observer: EntryObserver = lambda _: None,
) -> VerifiedTotals:
    """Return the totals of the ledger in this snapshot, or raise the first error."""
    return await verify_ledger(DatabaseLedger(transaction), progress, observer)


async def verify_ledger(
    ledger: LedgerSource,
    progress: Progress = lambda _: None,
    observer: EntryObserver = lambda _: None,
) -> VerifiedTotals:
    """Return the totals of this ledger, or raise the first error.

    The observer gets every page of entries after the page was found correct.
    """
    with DuplicateFinder() as transfer_ids:
        check = _JournalCheck(ledger.accounts(), transfer_ids)
        async for page in ledger.entries():
            await check.add_page(page)
            observer(page)
            progress(check.entries)
        await check.finish()
        suspects = transfer_ids.suspects()
    if not check.movements.is_balanced:
        raise VerificationFailed(await _describe_unpaired(ledger, check.movements))
    if suspects:
        await _check_single_debits(ledger, suspects)
    if check.balances != 0:
        total = f"{check.balances} millionths, not 0"
        raise VerificationFailed(f"the balances of all accounts add up to {total}")
    return VerifiedTotals(
        entries=check.entries,
        accounts=check.accounts,
        transfers=check.entries // 2,
        issued=check.issued,
    )


class _JournalCheck:
    """Reads the journal and the accounts side by side, both in the order of account ids."""

    def __init__(self, accounts: AsyncIterator[Account], transfer_ids: DuplicateFinder) -> None:
        self._accounts = accounts
        self._transfer_ids = transfer_ids
        self._account: Account | None = None  # as it is stored
        self._computed = empty_account("")  # as computed from its entries
        self.entries = 0
        self.accounts = 0
        self.balances = 0
        self.issued = 0
        self.movements = BucketSums()  # debits are added, credits subtracted

    async def add_page(self, page: Iterable[Entry]) -> None:
        """Check the next entries."""
        for account_id, entries in groupby(page, key=attrgetter("account_id")):
            while self._computed.id < account_id and await self._next_account():
                pass
            self._check_entries(entries, belongs=self._computed.id == account_id)

    async def finish(self) -> None:
        """Check the remaining accounts, which have no more entries."""
        while await self._next_account():
            pass

    async def _next_account(self) -> bool:
        if self._account is not None:
            _compare(self._account, self._computed)
        self._account = await anext(self._accounts, None)
        if self._account is None:
            return False
        self._computed = empty_account(self._account.id)
        self.accounts += 1
        self.balances += self._account.balance
        if self._account.id == SYSTEM_ACCOUNT_ID:
            self.issued = -self._account.balance
        return True

    def _check_entries(self, entries: Iterable[Entry], *, belongs: bool) -> None:
        for entry in entries:
            if not belongs:
                raise VerificationFailed(f"{describe_entry(entry)} belongs to no account")
            check_entry(entry, self._computed)
            if entry.amount < 0:
                self.movements.add(_movement_fields(entry))
                self._transfer_ids.add(entry.transfer_id)
            else:
                self.movements.subtract(_movement_fields(entry))
            self.entries += 1


def empty_account(account_id: str) -> Account:
    """Return an account as it is before its first entry."""
    return Account(account_id, "", "", "", "active", 0, 0, FIRST_HASH, 0, 0)


def check_entry(entry: Entry, last: Account) -> None:
    """Check that the entry follows the account's last entry, and apply it."""
    if entry.sequence != last.sequence + 1:
        missing = f"entry {last.sequence + 1} of account {entry.account_id}"
        raise VerificationFailed(f"{missing} is missing: entry {entry.sequence} follows")
    if entry.hash != entry_hash(last.head_hash, entry):
        raise VerificationFailed(f"{describe_entry(entry)} was changed or moved: its hash is wrong")
    if entry.balance_after != last.balance + entry.amount:
        raise VerificationFailed(
            f"{describe_entry(entry)} leaves the balance {entry.balance_after},"
            f" but {last.balance} plus {entry.amount} is {last.balance + entry.amount} millionths"
        )
    if entry.balance_after < 0 and entry.account_id != SYSTEM_ACCOUNT_ID:
        raise VerificationFailed(f"{describe_entry(entry)} leaves a balance below zero")
    if not _kind_matches_accounts(entry):
        raise VerificationFailed(
            f"{describe_entry(entry)} has the kind {entry.kind}, which does not match its accounts"
        )
    if entry.created_at < last.updated_at:
        raise VerificationFailed(
            f"{describe_entry(entry)} is dated before the entry that it follows"
        )
    last.sequence = entry.sequence
    last.head_hash = entry.hash
    last.balance = entry.balance_after
    last.updated_at = entry.created_at


def _kind_matches_accounts(entry: Entry) -> bool:
    """Return whether the kind of the entry matches its accounts.

    An entry of the system account must be a funding or a redemption. An entry of another account
    that has one of these kinds must have the system account as its counterparty.
    """
    if entry.account_id == SYSTEM_ACCOUNT_ID:
        return entry.kind == ("funding" if entry.amount < 0 else "redemption")
    return entry.kind in _KINDS_BETWEEN_PEOPLE or entry.counterparty_id == SYSTEM_ACCOUNT_ID


def _compare(account: Account, computed: Account) -> None:
    """Check that the stored account agrees with its entries."""
    if account.sequence > computed.sequence:
        raise VerificationFailed(
            f"entry {computed.sequence + 1} of account {account.id} is missing: "
            f"the account counts {account.sequence} entries"
        )
    if account.sequence < computed.sequence:
        raise VerificationFailed(
            f"account {account.id} counts {account.sequence} entries, but has {computed.sequence}"
        )
    if account.balance != computed.balance:
        raise VerificationFailed(
            f"account {account.id} has the balance {account.balance}, "
            f"but its last entry, {computed.sequence}, leaves {computed.balance} millionths"
        )
    if account.head_hash != computed.head_hash:
        raise VerificationFailed(f"account {account.id} does not have the hash of its last entry")
    date = computed.updated_at if computed.sequence else account.created_at
    if account.updated_at not in {0, date}:  # in an export, it is 0
        event = "its last entry" if computed.sequence else "its opening"
        raise VerificationFailed(f"account {account.id} does not have the date of {event}")


def _movement_fields(entry: Entry) -> Hashable:
    """Return the fields that the two entries of one movement share, and no other entry has."""
    if entry.amount < 0:
        amount, payer, payee = -entry.amount, entry.account_id, entry.counterparty_id
    else:
        amount, payer, payee = entry.amount, entry.counterparty_id, entry.account_id
    return (
        entry.transfer_id,
        amount,
        payer,
        payee,
        entry.kind,
        entry.note,
        entry.charge_id,
        entry.created_at,
    )


def check_pair(debit: Entry, credit: Entry) -> None:
    """Check that these are the two entries of one movement."""
    if not debit.amount < 0 < credit.amount or _movement_fields(debit) != _movement_fields(credit):
        raise VerificationFailed(
            f"{describe_entry(debit)} and {describe_entry(credit)} are not the two entries of one"
            " movement"
        )


def check_head(account: Account | None, computed: Account) -> None:
    """Check that the stored account has at least as many entries as the computed one.

    If it has no more than that, its balance and hash must also be those of the last entry.
    """
    if account is None or account.sequence < computed.sequence:
        raise VerificationFailed(
            f"the row of account {computed.id} lacks its entry {computed.sequence}"
        )
    if account.sequence == computed.sequence:
        _compare(account, computed)


async def _describe_unpaired(ledger: LedgerSource, movements: BucketSums) -> str:
    """Name an entry whose movement has no matching second entry."""
    unpaired: dict[tuple[Hashable, bool], Entry] = {}
    async for page in ledger.entries():
        for entry in page:
            movement, is_debit = _movement_fields(entry), entry.amount < 0
            if not movements.may_mismatch(movement):
                continue
            if unpaired.pop((movement, not is_debit), None) is None:
                unpaired[movement, is_debit] = entry
    entry = min(unpaired.values(), key=lambda each: (each.created_at, each.transfer_id))
    return (
        f"{describe_entry(entry)}, transfer {entry.transfer_id}, has no matching entry "
        f"in account {entry.counterparty_id}"
    )


async def _check_single_debits(ledger: LedgerSource, suspects: set[int]) -> None:
    """Raise an error if a transfer has two debits; each debit is known to have a credit."""
    debits: dict[str, Entry] = {}
    async for page in ledger.entries():
        for entry in page:
            if entry.amount < 0 and DuplicateFinder.is_suspect(entry.transfer_id, suspects):
                first = debits.setdefault(entry.transfer_id, entry)
                if first is not entry:
                    raise VerificationFailed(
                        f"transfer {entry.transfer_id} has two debits: {describe_entry(first)}"
                        f" and {describe_entry(entry)}"
                    )


def describe_entry(entry: Entry) -> str:
    """Return the words that name an entry in an error message."""
    return f"entry {entry.sequence} of account {entry.account_id}"
