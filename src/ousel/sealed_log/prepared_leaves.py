"""Leaves that are computed before the transaction that appends them.

Computing them takes longer than the rest of sealing. So it is done outside the transaction, a few
at a time, and other work of the process is done in between.
"""

import asyncio
import os
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from ousel.ledger.places import encode_places
from ousel.ledger.recent_movements import RecentMovements
from ousel.ledger.rules import Movement
from ousel.sealed_log.leaves import SEED_BYTES, derive_secrets, encode_leaf
from ousel.sealed_log.merkle import leaf_hash

# While another process does the sealing, leaves pile up; then the oldest batches are dropped.
PREPARED_BATCHES_MAX: Final = 1_000
MOVEMENTS_AT_ONCE: Final = 64  # computing their leaves takes less than a millisecond


class LeafRow(msgspec.Struct, frozen=True):
    """The leaves of movements with the same `created_at`, which share a row of `sealed_batches`."""

    date: int
    places: str
    seed: bytes
    hashes: list[bytes]


def leaf_rows(movements: Iterable[Movement]) -> list[LeafRow]:
    """Return the leaves of these movements, in the order of `created_at`."""
    by_date: dict[int, list[Movement]] = {}
    for each in movements:
        by_date.setdefault(each.debit.created_at, []).append(each)
    return [_leaf_row(date, group) for date, group in sorted(by_date.items())]


def _leaf_row(date: int, movements: Sequence[Movement]) -> LeafRow:
    seed = os.urandom(SEED_BYTES)
    hashes = [
        leaf_hash(encode_leaf(each.debit, each.credit.hash, secrets))
        for each, secrets in zip(movements, derive_secrets(seed, len(movements)), strict=True)
    ]
    return LeafRow(date, encode_places(movements), seed, hashes)


class PreparedLeaves:
    """The leaves of batches that this process has written lately, by the id of the batch."""

    def __init__(self, recent: RecentMovements) -> None:
        """Prepare the leaves of these movements."""
        self._recent = recent
        self._rows: dict[str, LeafRow] = {}
        self.has_all = False  # whether there was nothing more to prepare the last time

    async def prepare(self, movements_max: int) -> None:
        """Compute the leaves of the oldest batches, about this many movements in all."""
        self.has_all = False
        count = at_once = 0
        while count < movements_max and (oldest := self._recent.take_oldest()):
            batch_id, batch = oldest
            count += len(batch)
            at_once += len(batch)
            rows = leaf_rows(batch)
            # Movements of one batch rarely differ in `created_at`. If they do, they are not
            # prepared, and the sealer reads them from the database.
            if len(rows) == 1:
                self._rows[batch_id] = rows[0]
            while len(self._rows) > PREPARED_BATCHES_MAX:
                del self._rows[next(iter(self._rows))]
            if at_once >= MOVEMENTS_AT_ONCE:
                at_once = 0
                await asyncio.sleep(0)
        self.has_all = count < movements_max

    def will_prepare(self, batch_id: str) -> bool:
        """Return whether this batch was written lately, and its leaves will be computed next."""
        return batch_id in self._recent

    def find(self, batch_id: str, places: str) -> LeafRow | None:
        """Return the leaves of a batch with these places, or None if they are not prepared."""
        row = self._rows.get(batch_id)
        return row if row is not None and row.places == places else None

    def discard(self, batch_ids: Iterable[str]) -> None:
        """Forget batches that are sealed now."""
        for batch_id in batch_ids:
            self._rows.pop(batch_id, None)
