"""The backfill: finds movements that were written without a row for the sealer.

Older versions of Ousel write no such rows. So two kinds of movements have none: those from before
the upgrade and, in a rolling upgrade, those that the old version still writes after the migration.
The backfill goes through all entries, some at a time, and finds those that have no leaf and are not
waiting for one. The log is locked meanwhile, so no leaf is added.
"""

from collections.abc import Collection
from time import monotonic
from typing import Final

import msgspec

from ousel.database.port import Database, Transaction
from ousel.ledger.history import entry_of_transfer
from ousel.ledger.journal import count_entries, entries_after
from ousel.ledger.movements import unsealed_batches
from ousel.ledger.places import count_places
from ousel.ledger.rules import Entry, Movement
from ousel.sealed_log import store

SEARCH_TICK_SECONDS: Final = 1.0
SEARCH_SECONDS: Final = 600.0  # between two searches
SEARCH_AGAIN_SECONDS: Final = 60.0  # after one that failed
PAGE_ENTRIES: Final = 100
UNSEALED_BATCHES_MAX: Final = 1_000


class BackfillSearch:
    """Looks for movements that need a backfill, now and then."""

    def __init__(self, database: Database) -> None:
        """Look in this database."""
        self._database = database
        self._next_at = 0.0

    async def search_due(self) -> None:
        """Search, unless the last search was less than ten minutes ago.

        In a large ledger it takes minutes, and nothing else waits for it.
        """
        if monotonic() < self._next_at:
            return
        pause_seconds = SEARCH_AGAIN_SECONDS
        try:
            await self.search()
            pause_seconds = SEARCH_SECONDS
        finally:
            self._next_at = monotonic() + pause_seconds

    async def search(self) -> None:
        """Start a backfill if one is needed.

        On Citus, a snapshot that was taken while movements were sealed may have neither their rows
        nor their leaves. So a backfill starts only if a second snapshot shows the same.
        """
        await self._database.write(store.create_head)
        if await self._database.snapshot(is_needed) and await self._database.snapshot(is_needed):
            await self._database.write(start)


async def is_needed(snapshot: Transaction) -> bool:
    """Return whether a movement has neither a leaf nor a row, and no backfill is running.

    This reads all accounts, so it needs a snapshot, which lets others write meanwhile.
    """
    head = await store.read_head(snapshot)
    waiting = await unsealed_batches(snapshot, UNSEALED_BATCHES_MAX)
    if head.is_backfilling or len(waiting) == UNSEALED_BATCHES_MAX:
        return False
    movements = head.size + sum(map(count_places, waiting.values()))
    return await count_entries(snapshot) > 2 * movements


async def start(transaction: Transaction) -> None:
    """Start the backfill, unless it is running."""
    head = await store.lock_head(transaction, waits=True)
    if head is not None and not head.is_backfilling:
        started = msgspec.structs.replace(head, backfill_account_id="")
        await store.write_head(transaction, head, started)


async def next_page(transaction: Transaction, head: store.Head) -> list[Entry]:
    """Return the next entries that the running backfill looks at; nothing at its end."""
    assert head.backfill_account_id is not None
    return await entries_after(
        transaction, head.backfill_account_id, head.backfill_sequence, PAGE_ENTRIES
    )


def move_on(head: store.Head, page: list[Entry]) -> store.Head:
    """Return the state of the log after this page; after an empty one, the backfill has ended."""
    account_id, sequence = (page[-1].account_id, page[-1].sequence) if page else (None, 0)
    return msgspec.structs.replace(head, backfill_account_id=account_id, backfill_sequence=sequence)


async def movements_without_leaf(
    transaction: Transaction, page: list[Entry], waiting: Collection[tuple[str, int]]
) -> list[Movement]:
    """Return the movements of these entries that are not sealed and do not wait to be sealed."""
    debits = [entry for entry in page if entry.amount < 0]
    sealed = await store.sealed_movements_of(transaction, debits)
    return [
        Movement(
            entry,
            await entry_of_transfer(
                transaction, entry.counterparty_id, entry.transfer_id, entry.created_at
            ),
        )
        for entry in debits
        if (place := (entry.account_id, entry.sequence)) not in sealed and place not in waiting
    ]
