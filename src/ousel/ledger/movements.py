"""Reading movements: those that a transaction has written, and those at given places."""

from collections.abc import Collection, Sequence
from typing import Final

from ousel.database.port import Row, Transaction
from ousel.database.statements import Statement
from ousel.kernel.ids import time_of_id
from ousel.ledger.journal import ENTRIES, ENTRY_COLUMNS, accounts_by_id
from ousel.ledger.places import Place
from ousel.ledger.rules import Account, Entry, Movement

PLACES_PER_READ: Final = 5_000  # so that no statement takes too long, even from a slow disk

_DEBIT: Final = ", ".join(f"debit.{name}" for name in ENTRIES.names)
_CREDIT: Final = ", ".join(f"credit.{name}" for name in ENTRIES.names)
_ENTRY_WIDTH: Final = len(ENTRIES.names)

MOVEMENTS_AT: Final = Statement(
    "the movements at these places",
    f"SELECT {_DEBIT}, {_CREDIT} FROM ROWS(:places, debit_account_id text, debit_sequence bigint,"
    " credit_account_id text, credit_sequence bigint)"
    " JOIN entries AS debit ON debit.account_id = places.debit_account_id"
    " AND debit.sequence = places.debit_sequence"
    " JOIN entries AS credit ON credit.account_id = places.credit_account_id"
    " AND credit.sequence = places.credit_sequence",
)
ENTRIES_AT: Final = Statement(
    "the entries with these numbers",
    f"SELECT {ENTRY_COLUMNS} FROM ROWS(:places, account_id text, sequence bigint)"
    " JOIN entries ON entries.account_id = places.account_id"
    " AND entries.sequence = places.sequence",
)
UNSEALED: Final = Statement(
    "the oldest batches of movements that are not sealed",
    "SELECT id, movements FROM unsealed_batches ORDER BY id LIMIT :limit",
)
DELETE_UNSEALED: Final = Statement(
    "delete batches of movements that are sealed now",
    "DELETE FROM unsealed_batches WHERE id = ANY(:ids)",
)


async def unsealed_batches(transaction: Transaction, limit: int) -> dict[str, str]:
    """Return the places of the oldest batches that are not sealed, as texts, by id."""
    rows = await transaction.fetch(UNSEALED, limit=limit)
    return {row[0]: row[1] for row in rows}


async def oldest_unsealed_at(transaction: Transaction) -> int | None:
    """Return when the oldest batch that is not sealed was written, or None if all are sealed."""
    return min(map(time_of_id, await unsealed_batches(transaction, 1)), default=None)


async def delete_unsealed(transaction: Transaction, ids: Sequence[str]) -> None:
    """Delete these batches, which are sealed now."""
    deleted = await transaction.execute(DELETE_UNSEALED, ids=list(ids))
    assert deleted == len(ids), "somebody else has sealed these movements"


async def movements_at(transaction: Transaction, places: Sequence[Place]) -> list[Movement | None]:
    """Return the movement at each place, or None where one or both of its entries are missing."""
    found: dict[tuple[str, int], Row] = {}
    for at in range(0, len(places), PLACES_PER_READ):
        some = places[at : at + PLACES_PER_READ]
        rows = await transaction.fetch(MOVEMENTS_AT, places=some)
        found |= {(row[0], row[1]): row for row in rows}
    return [_movement(found.get(each[:2])) for each in places]


async def entries_before(
    transaction: Transaction, entries: Sequence[Entry]
) -> dict[tuple[str, int], Entry]:
    """Return the predecessor of each entry, by the account id and the sequence of the given entry.

    The first entry of an account has none.
    """
    places = [(entry.account_id, entry.sequence - 1) for entry in entries if entry.sequence > 1]
    rows = await transaction.fetch(ENTRIES_AT, places=places) if places else []
    return {(row[0], row[1] + 1): Entry(*row) for row in rows}


async def accounts_with_ids(transaction: Transaction, ids: Collection[str]) -> dict[str, Account]:
    """Return the accounts with these ids."""
    return await accounts_by_id(transaction, ids)


def _movement(row: Row | None) -> Movement | None:
    if row is None:
        return None
    return Movement(Entry(*row[:_ENTRY_WIDTH]), Entry(*row[_ENTRY_WIDTH:]))
