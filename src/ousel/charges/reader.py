"""Reading charges for many callers with one statement.

Nothing about a charge changes until it is paid, canceled or expired. So if a charge was open when
it was last read, checking that its status is still `created` is enough.
"""

from typing import Final

from ousel.charges import store
from ousel.charges.lifecycle import is_final
from ousel.charges.rules import Charge
from ousel.database.port import Transaction

CACHED_CHARGES_MAX: Final = 10_000


class ChargeReader:
    """Reads many charges with one or two statements."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._open: dict[str, Charge] = {}  # charges that were open when they were last read

    async def read(self, transaction: Transaction, ids: list[str]) -> dict[str, Charge | None]:
        """Return the charges with these ids as they are stored."""
        cached = [id_ for id_ in ids if id_ in self._open]
        still_open = await store.open_charges(transaction, cached) if cached else set()
        others = [id_ for id_ in ids if id_ not in still_open]
        found = await store.charges_by_id(transaction, others) if others else {}
        charges = {id_: self._open[id_] if id_ in still_open else found.get(id_) for id_ in ids}
        self._update_cache(found)
        return charges

    def _update_cache(self, found: dict[str, Charge]) -> None:
        if len(self._open) + len(found) > CACHED_CHARGES_MAX:
            self._open.clear()
        for id_, charge in found.items():
            if is_final(charge.status):
                self._open.pop(id_, None)
            else:
                self._open[id_] = charge
