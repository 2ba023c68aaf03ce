"""An account's history, newest or oldest first: pages by sequence number, never by offset."""

from collections.abc import Collection
from typing import Final, get_args

import msgspec

from ousel.database.port import Transaction
from ousel.database.statements import BIGINT_MAX, Statement
from ousel.ledger.journal import ACCOUNTS, ENTRIES, ENTRY_COLUMNS
from ousel.ledger.rules import Account, Entry, Kind

_COUNTERPARTY_COLUMNS: Final = ", ".join(f"counterparty.{name}" for name in ACCOUNTS.names)
_ENTRY_WIDTH: Final = len(ENTRIES.names)

_MATCHING_ENTRIES: Final = (
    f"SELECT {ENTRY_COLUMNS}, {_COUNTERPARTY_COLUMNS} FROM entries"
    " JOIN accounts AS counterparty ON counterparty.id = entries.counterparty_id"
    " WHERE entries.account_id = :account_id"
    " AND entries.amount BETWEEN :amount_min AND :amount_max"
    " AND entries.kind = ANY(:kinds)"
)

_IN_RANGE: Final = " AND entries.sequence >= :first AND entries.sequence < :before"

HISTORY: Final = Statement(
    "a page of an account's entries with their counterparties, newest first",
    f"{_MATCHING_ENTRIES}{_IN_RANGE} ORDER BY entries.sequence DESC LIMIT :limit",
)
HISTORY_OLDEST_FIRST: Final = Statement(
    "a page of an account's entries with their counterparties, oldest first",
    f"{_MATCHING_ENTRIES}{_IN_RANGE} ORDER BY entries.sequence LIMIT :limit",
)
HISTORY_OF_TRANSFER: Final = Statement(
    "an account's entry of a transfer, with its counterparty",
    f"{_MATCHING_ENTRIES}{_IN_RANGE} AND entries.transfer_id = :transfer_id",
)
ENTRIES_IN_RANGES: Final = Statement(
    "the entries of several accounts in a range of sequence numbers each, with counterparties",
    f"SELECT {ENTRY_COLUMNS}, {_COUNTERPARTY_COLUMNS}"
    " FROM ROWS(:ranges, account_id text, first bigint, last bigint)"
    " JOIN entries ON entries.account_id = ranges.account_id"
    " AND entries.sequence >= ranges.first AND entries.sequence <= ranges.last"
    " JOIN accounts AS counterparty ON counterparty.id = entries.counterparty_id",
)
# No index can serve `sequence + 0`, so PostgreSQL must use the index on the idempotency key,
# whatever its statistics say.
HISTORY_OF_KEY: Final = Statement(
    "an account's entry that used an idempotency key, with its counterparty",
    _MATCHING_ENTRIES + " AND entries.idempotency_key = :idempotency_key"
    " AND entries.sequence + 0 >= :first AND entries.sequence + 0 < :before",
)
ENTRY_OF_TRANSFER: Final = Statement(
    "an account's entry of a transfer, searched from a sequence number on",
    f"SELECT {ENTRY_COLUMNS} FROM entries"
    " WHERE entries.account_id = :account_id AND entries.sequence >= :first"
    " AND entries.transfer_id = :transfer_id ORDER BY entries.sequence LIMIT 1",
)
# An account's entries are in the order of time, so a binary search can find the first one.
FIRST_SINCE: Final = Statement(
    "the first sequence number of an account at or after a moment",
    "WITH RECURSIVE search(low, high) AS ("
    " SELECT CAST(1 AS BIGINT), (SELECT sequence + 1 FROM accounts WHERE id = :account_id)"
    " UNION ALL"
    " SELECT CASE WHEN probe.created_at < :moment THEN (low + high) / 2 + 1 ELSE low END,"
    " CASE WHEN probe.created_at < :moment THEN high ELSE (low + high) / 2 END"
    " FROM search JOIN entries AS probe"
    " ON probe.account_id = :account_id AND probe.sequence = (low + high) / 2"
    " WHERE low < high"
    ") SELECT low FROM search WHERE low = high",
)

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


class HistoryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which of an account's entries to return."""

    account_id: str
    limit: int
    oldest_first: bool = False
    after_sequence: int = 0
    before_sequence: int | None = None
    direction: str | None = None
    kind: Kind | None = None
    created_after: int | None = None
    created_before: int | None = None
    idempotency_key: str | None = None
    transfer_id: str | None = None


def matches(query: HistoryQuery, entry: Entry) -> bool:
    """Return whether an entry of the account passes the query's filters."""
    return (
        (query.direction is None or (query.direction == "in") == (entry.amount > 0))
        and query.kind in {None, entry.kind}
        and (query.created_after is None or entry.created_at > query.created_after)
        and (query.created_before is None or entry.created_at < query.created_before)
        and query.idempotency_key in {None, entry.idempotency_key}
        and query.transfer_id in {None, entry.transfer_id}
    )


async def page_of_entries(
    transaction: Transaction, query: HistoryQuery
) -> list[tuple[Entry, Account]]:
    """Return the first matching entries with counterparties, up to one more than the limit.

    The additional one shows that there is a next page.
    """
    return await matching_entries(transaction, query, await sequence_range(transaction, query))


async def sequence_range(transaction: Transaction, query: HistoryQuery) -> range:
    """Return the sequence numbers that the query's cursor and times allow, oldest first."""
    first = query.after_sequence + 1
    before = BIGINT_MAX if query.before_sequence is None else query.before_sequence
    if query.created_after is not None:
        number = await _first_since(transaction, query.account_id, query.created_after + 1)
        first = max(first, number)
    if query.created_before is not None:
        number = await _first_since(transaction, query.account_id, query.created_before)
        before = min(before, number)
    return range(first, before)


async def matching_entries(
    transaction: Transaction, query: HistoryQuery, among: range
) -> list[tuple[Entry, Account]]:
    """Return the first matching entries in this range, up to one more than the limit."""
    rows = await transaction.fetch(
        _statement(query),
        account_id=query.account_id,
        first=among.start,
        before=among.stop,
        amount_min=1 if query.direction == "in" else -BIGINT_MAX,
        amount_max=-1 if query.direction == "out" else BIGINT_MAX,
        kinds=[query.kind] if query.kind is not None else list(KINDS),
        idempotency_key=query.idempotency_key,
        transfer_id=query.transfer_id,
        limit=query.limit + 1,
    )
    return [(Entry(*row[:_ENTRY_WIDTH]), Account(*row[_ENTRY_WIDTH:])) for row in rows]


async def entries_in_ranges(
    transaction: Transaction, ranges: Collection[tuple[str, int, int]]
) -> dict[tuple[str, int], tuple[Entry, Account]]:
    """Return entries by account id and sequence number; a range has an account, first and last."""
    rows = await transaction.fetch(ENTRIES_IN_RANGES, ranges=ranges)
    pairs = ((Entry(*row[:_ENTRY_WIDTH]), Account(*row[_ENTRY_WIDTH:])) for row in rows)
    return {(entry.account_id, entry.sequence): (entry, other) for entry, other in pairs}


def _statement(query: HistoryQuery) -> Statement:
    if query.transfer_id is not None:
        return HISTORY_OF_TRANSFER
    if query.idempotency_key is not None:
        return HISTORY_OF_KEY
    return HISTORY_OLDEST_FIRST if query.oldest_first else HISTORY


async def entry_of_transfer(
    transaction: Transaction, account_id: str, transfer_id: str, since: int
) -> Entry:
    """Return the account's entry of a transfer that was made at the moment `since` or later."""
    first = await _first_since(transaction, account_id, since)
    rows = await transaction.fetch(
        ENTRY_OF_TRANSFER, account_id=account_id, first=first, transfer_id=transfer_id
    )
    return Entry(*rows[0])


async def _first_since(transaction: Transaction, account_id: str, moment: int) -> int:
    rows = await transaction.fetch(FIRST_SINCE, account_id=account_id, moment=moment)
    return int(rows[0][0])
