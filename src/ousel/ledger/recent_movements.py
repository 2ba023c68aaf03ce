"""The movements that this process has written lately, which the sealed log need not read again."""

from collections.abc import Sequence
from typing import Final

from ousel.ledger.rules import Movement

MOVEMENTS_KEPT_MAX: Final = 10_000


class RecentMovements:
    """The movements of the last batches, each batch by the id of its first transfer."""

    def __init__(self) -> None:
        """Begin without movements."""
        self._batches: dict[str, Sequence[Movement]] = {}
        self._kept = 0

    def add(self, movements: Sequence[Movement]) -> None:
        """Keep the movements of a batch that was committed; forget the oldest if they are many."""
        if not movements:
            return
        self._batches[movements[0].debit.transfer_id] = movements
        self._kept += len(movements)
        while self._kept > MOVEMENTS_KEPT_MAX:
            self.take(next(iter(self._batches)))

    def take(self, batch_id: str) -> Sequence[Movement]:
        """Remove and return the movements of a batch, or return none if it is not kept."""
        movements = self._batches.pop(batch_id, ())
        self._kept -= len(movements)
        return movements
