"""Reading charges for all who poll at the same time.

A charge that was open when it was read last needs no more than a look whether it still is: until
it is paid, canceled or expired, nothing of it changes.
"""

from typing import Final

from ousel.charges import store
from ousel.charges.rules import Charge
from ousel.database.port import Transaction

OPEN_KEPT_MAX: Final = 10_000

Key = tuple[str, str]  # of a charge: its account and its id


class ChargeReader:
    """Reads many charges with one or two statements."""

    def __init__(self) -> None:
        """Know of no charge yet."""
        self._open: dict[Key, Charge] = {}

    async def read(self, transaction: Transaction, keys: list[Key]) -> dict[Key, Charge | None]:
        """Return the charges as they are written."""
        known = [key for key in keys if key in self._open]
        still_open = await store.still_open(transaction, known) if known else set()
        unknown = [key for key in keys if key not in still_open]
        found = await store.by_key(transaction, unknown) if unknown else {}
        charges = {key: self._open[key] if key in still_open else found.get(key) for key in keys}
        self._remember(found)
        return charges

    def _remember(self, found: dict[Key, Charge]) -> None:
        if len(self._open) + len(found) > OPEN_KEPT_MAX:
            self._open.clear()
        for key, charge in found.items():
            if charge.status == "created":
                self._open[key] = charge
            else:
                self._open.pop(key, None)
