"""Waiting until a charge is paid, canceled or expired."""

from collections.abc import Collection, Mapping
from typing import Final

from typing_extensions import override

from ousel.charges import store
from ousel.charges.lifecycle import micros_until_expiry
from ousel.charges.rules import Charge
from ousel.database.change_notifier import POLL_SECONDS, ChangeNotifier
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import MICROS_PER_SECOND, Clock

EXPIRY_SLACK_SECONDS: Final = 0.001  # a timer may fire early by less than the clock's resolution


class ChargeNotifier(ChangeNotifier):
    """Wakes those who wait for a charge when it may have changed.

    The mark of a charge (see ChangeNotifier) is its `expires_at`.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        """Tell by this clock which charges have expired."""
        super().__init__(database)
        self._clock = clock

    async def wait_for_change(self, charge: Charge, seconds: float) -> None:
        """Return when the charge may have changed, or after this many seconds."""
        # If an open charge seems overdue, the database's clock is behind this one: return soon, so
        # that the caller asks the database again.
        micros = micros_until_expiry(charge, self._clock())
        expiry_seconds = micros / MICROS_PER_SECOND or POLL_SECONDS
        seconds = min(seconds, expiry_seconds + EXPIRY_SLACK_SECONDS)
        await self._wait(charge.id, charge.expires_at, seconds)

    @override
    async def _find_changed(
        self, transaction: Transaction, marks: Mapping[str, int]
    ) -> Collection[str]:
        """Return the charges that have expired or have a final status in the database."""
        now = self._clock()
        overdue = [charge_id for charge_id, expires_at in marks.items() if expires_at <= now]
        return [*overdue, *await store.final_charges(transaction, marks)]
