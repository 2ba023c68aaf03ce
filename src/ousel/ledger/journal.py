"""The rows of the ledger: accounts, their identifiers, and their entries."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from typing import Any, Final

import msgspec

from ousel.database.port import Transaction
from ousel.database.statements import Statement, Table
from ousel.ledger import partner_key_check
from ousel.ledger.places import encode_places
from ousel.ledger.rules import (
    FIRST_HASH,
    Account,
    Entry,
    Movement,
    Posting,
    Status,
    UsedIdempotencyKeys,
)

ACCOUNTS_COUNTED_AT_ONCE: Final = 10_000

ACCOUNTS: Final = Table(
    "accounts",
    key=("id text",),
    columns=(
        "username text",
        "account_number text",
        "display_name text",
        "status text",
        "balance bigint",
        "sequence bigint",
        "head_hash text",
        "created_at bigint",
        "updated_at bigint",
    ),
)
ACCOUNT_HEADS: Final = Table(
    "accounts",
    key=("id text",),
    columns=("balance bigint", "sequence bigint", "head_hash text", "updated_at bigint"),
)
ENTRIES: Final = Table(
    "entries",
    key=("account_id text", "sequence bigint"),
    columns=(
        "transfer_id text",
        "kind text",
        "amount bigint",
        "balance_after bigint",
        "counterparty_id text",
        "note text",
        "charge_id text",
        "idempotency_key text",
        "created_at bigint",
        "hash text",
    ),
)

# The movements of each transaction, until the sealed log has them: see `ousel.ledger.movements`.
UNSEALED_BATCHES: Final = Table("unsealed_batches", key=("id text",), columns=("movements text",))

ENTRY_COLUMNS: Final = ", ".join(f"entries.{name}" for name in ENTRIES.names)

_ACCOUNT_COLUMNS: Final = ", ".join(ACCOUNTS.names)

ACCOUNTS_BY_ID: Final = Statement(
    "accounts by id",
    f"SELECT {_ACCOUNT_COLUMNS} FROM accounts WHERE id = ANY(:ids)",
)
ACCOUNTS_WITH_LATER_ENTRIES: Final = Statement(
    "which of these accounts have an entry after the given sequence number",
    "SELECT accounts.id FROM ROWS(:marks, id text, sequence bigint)"
    " JOIN accounts ON accounts.id = marks.id AND accounts.sequence > marks.sequence",
)
ACCOUNTS_AFTER: Final = Statement(
    "accounts after an id, in order",
    f"SELECT {_ACCOUNT_COLUMNS} FROM accounts WHERE id > :after ORDER BY id LIMIT :limit",
)
ACCOUNT_IDS: Final = Statement(
    "account ids of identifiers",
    "SELECT identifier, account_id FROM identifiers WHERE identifier = ANY(:identifiers)",
)
CLAIM_IDENTIFIER: Final = Statement(
    "claim an identifier for an account",
    "INSERT INTO identifiers (identifier, account_id) VALUES (:identifier, :account_id)"
    " ON CONFLICT DO NOTHING",
)
RELEASE_IDENTIFIER: Final = Statement(
    "release an identifier of an account",
    "DELETE FROM identifiers WHERE identifier = :identifier AND account_id = :account_id",
)
SET_STATUS: Final = Statement(
    "freeze or unfreeze an account", "UPDATE accounts SET status = :status WHERE id = :id"
)
_KEYS_USED: Final = (
    "ROWS(:keys, account_id text, idempotency_key text)"
    " JOIN entries ON entries.account_id = keys.account_id"
    " AND entries.idempotency_key = keys.idempotency_key"
)
_LOCK_ACCOUNTS: Final = (
    f"SELECT {_ACCOUNT_COLUMNS},"
    " (SELECT CAST(SUM(sequence) AS BIGINT) FROM accounts WHERE id = ANY(:debited)),"
    f" (SELECT COUNT(*) FROM {_KEYS_USED}),"
    f" (SELECT COUNT(*) FROM {partner_key_check.VALID_KEYS}),"
    " (SELECT CLOCK())"
    " FROM accounts WHERE id = ANY(:ids)"
)
LOCK_ACCOUNTS: Final = Statement(
    "count keys and read the clock, then lock accounts in the order of their ids",
    f"{_LOCK_ACCOUNTS} ORDER BY id FOR UPDATE",
)
LOCK_FREE_ACCOUNTS: Final = Statement(
    "lock accounts in the order of their ids, without those that other transactions have locked",
    f"{_LOCK_ACCOUNTS} ORDER BY id FOR UPDATE SKIP LOCKED",
)
_AWAITED: Final = "SELECT id FROM accounts WHERE id = :awaited FOR UPDATE"
WAIT_FOR_ACCOUNT: Final = Statement("wait for one account, and lock it", _AWAITED)
LOCK_ACCOUNTS_AFTER_WAITING: Final = Statement(
    "first wait for one account and lock it, then lock the other accounts that are free",
    f"{_LOCK_ACCOUNTS} AND (SELECT COUNT(*) FROM ({_AWAITED}) AS awaited) > 0"
    " ORDER BY id FOR UPDATE SKIP LOCKED",
)
ENTRIES_OF_KEYS: Final = Statement(
    "entries that used these idempotency keys", f"SELECT {ENTRY_COLUMNS} FROM {_KEYS_USED}"
)
ENTRIES_OF_TRANSFERS: Final = Statement(
    "the entries of these transfers that come after a sequence number of their account",
    f"SELECT {ENTRY_COLUMNS} FROM ROWS(:heads, account_id text, sequence bigint)"
    " JOIN entries ON entries.account_id = heads.account_id"
    " AND entries.sequence > heads.sequence"
    " WHERE entries.transfer_id = ANY(:transfer_ids)",
)
ENTRIES_IN_ORDER: Final = Statement(
    "the entries after a given one, in the order of accounts and sequences",
    f"SELECT {ENTRY_COLUMNS} FROM entries"
    " WHERE (account_id, sequence) > (:account_id, :sequence)"
    " ORDER BY account_id, sequence LIMIT :limit",
)

COUNT_ENTRIES: Final = Statement(
    "the number of entries of the accounts after a given one, and the last of these accounts",
    "SELECT CAST(COALESCE(SUM(sequence), 0) AS BIGINT), MAX(id) FROM"
    " (SELECT id, sequence FROM accounts WHERE id > :after ORDER BY id LIMIT :limit) AS page",
)


class NewAccount(msgspec.Struct, frozen=True, kw_only=True):
    """An account to be opened, with all its identifiers."""

    id: str
    username: str
    account_number: str
    display_name: str
    created_at: int
    identifiers: tuple[str, ...]


class IdentifierTaken(Exception):
    """Another account has this identifier."""

    def __init__(self, identifier: str) -> None:
        """Name the identifier."""
        super().__init__(identifier)
        self.identifier = identifier


async def insert_account(transaction: Transaction, new: NewAccount) -> Account:
    """Insert an account with a balance of zero, or raise IdentifierTaken."""
    for identifier in new.identifiers:
        await claim_identifier(transaction, identifier, new.id)
    account = Account(
        id=new.id,
        username=new.username,
        account_number=new.account_number,
        display_name=new.display_name,
        status="active",
        balance=0,
        sequence=0,
        head_hash=FIRST_HASH,
        created_at=new.created_at,
        updated_at=new.created_at,
    )
    await transaction.insert(ACCOUNTS, [msgspec.structs.astuple(account)])
    return account


async def claim_identifier(transaction: Transaction, identifier: str, account_id: str) -> None:
    """Let this identifier name the account, or raise IdentifierTaken if it names one already."""
    claimed = await transaction.execute(
        CLAIM_IDENTIFIER, identifier=identifier, account_id=account_id
    )
    if not claimed:
        raise IdentifierTaken(identifier)


async def release_identifier(transaction: Transaction, identifier: str, account_id: str) -> None:
    """Remove this identifier from its account. Only emails are ever removed."""
    await transaction.execute(RELEASE_IDENTIFIER, identifier=identifier, account_id=account_id)


async def find_account_ids(
    transaction: Transaction, identifiers: Collection[str]
) -> dict[str, str]:
    """Return the account id of each of these normalized identifiers that is in use."""
    if not identifiers:
        return {}
    rows = await transaction.fetch(ACCOUNT_IDS, identifiers=list(identifiers))
    return {row[0]: row[1] for row in rows}


async def accounts_by_id(transaction: Transaction, ids: Collection[str]) -> dict[str, Account]:
    """Return the accounts with these ids."""
    rows = await transaction.fetch(ACCOUNTS_BY_ID, ids=list(ids))
    return {row[0]: Account(*row) for row in rows}


async def accounts_with_later_entries(
    transaction: Transaction, sequences: Mapping[str, int]
) -> list[str]:
    """Return the ids of the accounts that have an entry after the number given for each."""
    rows = await transaction.fetch(ACCOUNTS_WITH_LATER_ENTRIES, marks=list(sequences.items()))
    return [row[0] for row in rows]


async def accounts_after(transaction: Transaction, after: str, limit: int) -> list[Account]:
    """Return the next accounts in the order of their ids."""
    rows = await transaction.fetch(ACCOUNTS_AFTER, after=after, limit=limit)
    return [Account(*row) for row in rows]


async def set_status(transaction: Transaction, account_id: str, status: Status) -> None:
    """Freeze or unfreeze an account, which takes effect for the next posting."""
    await transaction.execute(SET_STATUS, id=account_id, status=status)


class LockedLedger(msgspec.Struct, frozen=True):
    """What the rules need to decide the postings of a batch."""

    accounts: dict[str, Account]  # locked until the transaction ends, without the blocked ones
    used_idempotency_keys: UsedIdempotencyKeys  # the idempotency keys that were used before
    rejected_partner_keys: partner_key_check.PartnerKeys  # the partner keys that are not valid
    database_time: int = 0  # what the database's clock showed, if any account was locked


async def wait_for_account(transaction: Transaction, account_id: str) -> None:
    """Lock the account; wait until no other transaction has locked it."""
    await transaction.fetch(WAIT_FOR_ACCOUNT, awaited=account_id)


async def lock_accounts(
    transaction: Transaction,
    ids: Collection[str],
    postings: Sequence[Posting],
    now: int,
    *,
    awaited: str | None,
    waits: bool,
) -> LockedLedger:
    """Lock the accounts; return them with the used idempotency keys and rejected partner keys.

    Accounts that other transactions have locked are left out, except for the awaited one, which
    is locked before any other. With `waits`, all are waited for.

    The statement that locks the accounts also counts the used idempotency keys and the valid
    partner keys, as of its start. For partner keys this is recent enough: the statement starts
    after the posting arrived. Idempotency keys are read again under the locks in three cases: if
    one of them was found; if a debited account is left out; or if the sequence of a debited account
    has grown, because another process wrote to it while we waited for the lock.
    """
    debited = {posting.debit_account_id for posting in postings}
    keys = [
        (posting.debit_account_id, posting.idempotency_key)
        for posting in postings
        if posting.idempotency_key is not None
    ]
    checked = partner_key_check.keys_to_check(postings)
    parameters: dict[str, object] = {
        "ids": list(ids),
        "debited": list(debited),
        "keys": keys,
        "checked": checked,
        "now": now,
    }
    statement = LOCK_ACCOUNTS if waits else LOCK_FREE_ACCOUNTS
    if awaited in ids and not waits:
        statement = LOCK_ACCOUNTS_AFTER_WAITING
        parameters["awaited"] = awaited
    rows = await transaction.fetch(statement, **parameters)
    if not rows:
        return LockedLedger({}, {}, set())
    accounts = {row[0]: Account(*row[:-4]) for row in rows}
    sequences_before, keys_used, keys_valid, database_time = rows[0][-4:]
    used_idempotency_keys: UsedIdempotencyKeys = {}
    blocked = not debited <= accounts.keys()
    if keys_used or blocked or sequences_before != sum(accounts[id_].sequence for id_ in debited):
        used_idempotency_keys = await _used_idempotency_keys(transaction, keys)
    rejected: partner_key_check.PartnerKeys = set()
    if keys_valid != len(checked):
        rejected = await partner_key_check.find_rejected_keys(transaction, checked, now)
    return LockedLedger(accounts, used_idempotency_keys, rejected, database_time)


async def _used_idempotency_keys(
    transaction: Transaction, keys: list[tuple[str, str]]
) -> UsedIdempotencyKeys:
    entries = _entries(await transaction.fetch(ENTRIES_OF_KEYS, keys=keys))
    return {(entry.account_id, entry.idempotency_key or ""): entry for entry in entries}


async def entries_of_transfers(
    transaction: Transaction, transfer_ids: Collection[str], sequences: Mapping[str, int]
) -> list[Entry]:
    """Return the entries of these transfers, after the sequence number given for each account."""
    rows = await transaction.fetch(
        ENTRIES_OF_TRANSFERS, heads=list(sequences.items()), transfer_ids=list(transfer_ids)
    )
    return _entries(rows)


async def entries_after(
    transaction: Transaction, account_id: str, sequence: int, limit: int
) -> list[Entry]:
    """Return the next entries of the whole journal in the order of accounts and sequences."""
    rows = await transaction.fetch(
        ENTRIES_IN_ORDER, account_id=account_id, sequence=sequence, limit=limit
    )
    return _entries(rows)


async def count_entries(transaction: Transaction, enough: float = inf) -> int:
    """Return the number of entries, which is the sum of the accounts' sequences.

    Read the accounts in pages, since one statement for millions of accounts would be ended for
    taking too long. Stop at `enough` entries.
    """
    count = 0
    last: str | None = ""
    while last is not None and count < enough:
        [(entries, last)] = await transaction.fetch(
            COUNT_ENTRIES, after=last, limit=ACCOUNTS_COUNTED_AT_ONCE
        )
        count += entries
    return count


async def write_movements(
    transaction: Transaction,
    moved: Sequence[Movement],
    accounts: Mapping[str, Account],
    batch_id: str,
) -> None:
    """Write the entries of these movements, and the balance and last entry of each account.

    One more row, with this id, names the movements, so that the sealed log finds them.
    """
    entries = [entry for each in moved for entry in (each.debit, each.credit)]
    touched = [accounts[account_id] for account_id in {entry.account_id for entry in entries}]
    await transaction.insert(ENTRIES, map(msgspec.structs.astuple, entries))
    await transaction.insert(UNSEALED_BATCHES, [(batch_id, encode_places(moved))])
    await transaction.update(
        ACCOUNT_HEADS,
        [
            (account.id, account.balance, account.sequence, account.head_hash, account.updated_at)
            for account in touched
        ],
    )


def _entries(rows: Iterable[Sequence[Any]]) -> list[Entry]:
    return [Entry(*row) for row in rows]
