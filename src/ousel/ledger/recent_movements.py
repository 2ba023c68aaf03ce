"""The movements that this process has written lately, which the sealed log need not read again."""

from collections.abc import Sequence
from typing import Final

from ousel.ledger.rules import Movement

MOVEMENTS_KEPT_MAX: Final = 10_000


class RecentMovements:
    """The movements of the last batches."""

    def __init__(self) -> None:
        """Begin without movements."""
        self._batches: dict[str, Sequence[Movement]] = {}  # by the id of the batch
        self._kept = 0

    def add(self, movements: Sequence[Movement]) -> None:
        """Keep the movements of a batch that was committed; forget the oldest if they are many."""
        if not movements:
            return
        self._batches[movements[0].debit.transfer_id] = movements
        self._kept += len(movements)
        while self._kept > MOVEMENTS_KEPT_MAX:
            self.take_oldest()

    def take_oldest(self) -> Sequence[Movement]:
        """Remove and return the movements of the oldest batch, or return none if none is kept."""
        movements = self._batches.pop(next(iter(self._batches))) if self._batches else ()
        self._kept -= len(movements)
        return movements

    def __contains__(self, batch_id: str) -> bool:
        """Return whether the movements of this batch are kept."""
        return batch_id in self._batches
