"""The sandbox's clock: the real clock plus the time by which tests have advanced it."""

import asyncio
from typing import Final

from ousel.database.clock import database_time
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import MICROS_PER_SECOND, Clock
from ousel.kernel.errors import InvalidField
from ousel.sandbox import store

REFRESH_SECONDS: Final = 0.25
ADVANCE_SECONDS_MAX: Final = 366 * 24 * 3600
OFFSET_MICROS_MAX: Final = 100 * ADVANCE_SECONDS_MAX * MICROS_PER_SECOND


async def time_of_servers(transaction: Transaction) -> int:
    """Return the time that Ousel's servers use: the database's, plus the offset of a sandbox."""
    return await database_time(transaction) + await store.offset(transaction)


class SandboxClock:
    """Returns the sandbox's time without asking the database; its offset never decreases."""

    def __init__(self, database: Database, clock: Clock, processes: int = 1) -> None:
        """Follow this clock, and add the time by which tests have advanced it.

        `processes` is how many this server has.
        """
        self._database = database
        self._clock = clock
        self._processes = processes
        self._offset_micros = 0

    def __call__(self) -> int:
        """Return the sandbox's present moment in microseconds."""
        return self._clock() + self._offset_micros

    def from_database(self, reading: int) -> int:
        """Return the sandbox's present moment, given what the database's clock shows now."""
        return self._clock.from_database(reading) + self._offset_micros

    async def refresh(self) -> None:
        """Read how far other processes have advanced the clock."""
        offset_micros = await self._database.read(store.offset)
        self._offset_micros = max(self._offset_micros, offset_micros)

    async def advance(self, seconds: int) -> None:
        """Advance the clock: here at once, in other processes with their next refresh."""

        async def add(transaction: Transaction) -> int:
            offset = await store.add_offset(transaction, seconds * MICROS_PER_SECOND)
            if offset > OFFSET_MICROS_MAX:
                raise InvalidField("The clock cannot be advanced any further.", param="advance")
            return offset

        offset_micros = await self._database.write(add)
        self._offset_micros = max(self._offset_micros, offset_micros)

    async def wait_for_others(self) -> None:
        """Wait until all other processes of this server, if there are any, have had a refresh.

        Before it, they refuse to move money of accounts that have an entry with the new time.
        """
        if self._processes > 1:
            await asyncio.sleep(2 * REFRESH_SECONDS)
