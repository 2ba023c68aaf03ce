"""The sandbox's clock: the real one, and what tests have moved it on by."""

from typing import Final

from ousel.database.port import Database, Transaction
from ousel.kernel.clock import MICROS_PER_SECOND, Clock
from ousel.kernel.errors import InvalidField
from ousel.sandbox import store

REFRESH_SECONDS: Final = 0.25
ADVANCE_SECONDS_MAX: Final = 366 * 24 * 3600
OFFSET_MICROS_MAX: Final = 100 * ADVANCE_SECONDS_MAX * MICROS_PER_SECOND


class SandboxClock:
    """Tells the sandbox's time without asking the database; it only ever moves on."""

    def __init__(self, database: Database, clock: Clock) -> None:
        """Follow this clock, and from the first refresh on what the database says of it."""
        self._database = database
        self._clock = clock
        self._offset_micros = 0

    def __call__(self) -> int:
        """Return the sandbox's present moment in microseconds."""
        return self._clock() + self._offset_micros

    async def refresh(self) -> None:
        """Learn what other processes have moved the clock on by."""
        offset_micros = await self._database.read(store.offset)
        self._offset_micros = max(self._offset_micros, offset_micros)

    async def advance(self, seconds: int) -> None:
        """Move the clock on: here at once, in other processes with their next refresh."""

        async def added(transaction: Transaction) -> int:
            offset = await store.add_offset(transaction, seconds * MICROS_PER_SECOND)
            if offset > OFFSET_MICROS_MAX:
                raise InvalidField("The clock can go no further.", param="advance")
            return offset

        offset_micros = await self._database.write(added)
        self._offset_micros = max(self._offset_micros, offset_micros)
