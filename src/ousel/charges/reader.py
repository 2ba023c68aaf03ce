"""Reading charges for all who ask at the same time.

A charge that was open when it was read last needs no more than a look whether it still is: until
it is paid, canceled or expired, nothing of it changes.
"""

from typing import Final

from ousel.charges import store
from ousel.charges.rules import Charge
from ousel.database.port import Transaction

OPEN_KEPT_MAX: Final = 10_000


class ChargeReader:
    """Reads many charges with one or two statements."""

    def __init__(self) -> None:
        """Know of no charge yet."""
        self._open: dict[str, Charge] = {}

    async def read(self, transaction: Transaction, ids: list[str]) -> dict[str, Charge | None]:
        """Return the charges as they are written."""
        known = [id_ for id_ in ids if id_ in self._open]
        still_open = await store.open_charges(transaction, known) if known else set()
        unknown = [id_ for id_ in ids if id_ not in still_open]
        found = await store.charges_by_id(transaction, unknown) if unknown else {}
        charges = {id_: self._open[id_] if id_ in still_open else found.get(id_) for id_ in ids}
        self._remember(found)
        return charges

    def _remember(self, found: dict[str, Charge]) -> None:
        if len(self._open) + len(found) > OPEN_KEPT_MAX:
            self._open.clear()
        for id_, charge in found.items():
            if charge.status == "created":
                self._open[id_] = charge
            else:
                self._open.pop(id_, None)
