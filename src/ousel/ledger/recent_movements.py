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

    def add(self, batch_id: str, movements: Sequence[Movement]) -> None:
        """Keep the movements of a batch that was committed; forget the oldest if they are many."""
        if not movements:
            return
        self._batches[batch_id] = movements
        self._kept += len(movements)
        while self._kept > MOVEMENTS_KEPT_MAX:
            self.take_oldest()

    def take_oldest(self) -> tuple[str, Sequence[Movement]] | None:
        """Remove and return the oldest batch, its id and its movements, if any is kept."""
        if not self._batches:
            return None
        batch_id = next(iter(self._batches))
        movements = self._batches.pop(batch_id)
        self._kept -= len(movements)
        return batch_id, movements

    def __contains__(self, batch_id: str) -> bool:
        """Return whether the movements of this batch are kept."""
        return batch_id in self._batches
