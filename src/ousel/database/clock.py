"""The database's clock: it gives rows their timestamps, whatever the clocks of the hosts show."""

import time
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from ousel.database.addresses import is_postgres
from ousel.database.port import Database, Transaction
from ousel.database.statements import Statement
from ousel.kernel.clock import MICROS_PER_SECOND, Clock, SystemClock, system_clock
from ousel.kernel.errors import Refusal

MEASURE_SECONDS: Final = 60.0
SKEW_SECONDS_MAX: Final = 5
# An answer that takes longer is not precise enough. The next one is probably faster.
ANSWER_NANOS_MAX: Final = 1_000_000_000
MEASUREMENTS_MAX: Final = 3

# The time since this machine started, including the time it was suspended; nobody can set it.
_ELAPSED_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
elapsed_nanos: Final = partial(time.clock_gettime_ns, _ELAPSED_CLOCK)

DATABASE_TIME: Final = Statement("what the database's clock shows", "SELECT CLOCK()")


class ClockSkewed(Refusal):
    """The clock of Ousel's host differs from the clock of the database's server."""

    status = 503
    code = "clock_skewed"
    title = "The clocks of this host and of the database differ"
    cure = "The operator must correct the clock of the host, or of the database's server."


def check_skew(skew_micros: int) -> None:
    """Refuse a host whose clock differs too much from the database's."""
    if abs(skew_micros) > SKEW_SECONDS_MAX * MICROS_PER_SECOND:
        seconds = round(abs(skew_micros) / MICROS_PER_SECOND)
        direction = "ahead of" if skew_micros > 0 else "behind"
        raise ClockSkewed(
            f"The clock of this host is {seconds} seconds {direction} that of the database:"
            " correct the one that is wrong.",
            retry_after_seconds=60,
        )


async def database_time(transaction: Transaction) -> int:
    """Return what the database's clock shows, in microseconds."""
    [(reading,)] = await transaction.fetch(DATABASE_TIME)
    return int(reading)


class DatabaseClock(Clock, Protocol):
    """The clock that dates what is written to a database."""

    skew_micros: int
    """By how much this host's clock was ahead of the database's at the last measurement."""

    async def measure(self) -> None:
        """Measure by how much this host's clock is ahead of the database's."""
        ...


class SqliteClock(SystemClock):
    """The clock of this host, which dates what is written to SQLite."""

    skew_micros = 0

    async def measure(self) -> None:
        """Do nothing: SQLite uses this host's clock, so the two never differ."""


class PostgresClock:
    """Tells the time of the database's server without a query.

    Between two measurements it adds the time that has elapsed, so it does not depend on this host's
    own clock. It is behind the server's clock by the time that the last answer took to arrive. If
    this process or the network stood still meanwhile, that would be seconds, so it asks again.
    """

    def __init__(
        self,
        database: Database,
        host_clock: Callable[[], int] = system_clock,
        elapsed: Callable[[], int] = elapsed_nanos,
    ) -> None:
        """Follow this database's clock; until the first measurement, show this host's time."""
        self._database = database
        self._host_clock = host_clock
        self._elapsed = elapsed
        self._offset_micros = host_clock() - elapsed() // 1_000
        self.skew_micros = 0  # by how much this host's clock was ahead when last measured

    def __call__(self) -> int:
        """Return the present moment by the database's clock."""
        return self._elapsed() // 1_000 + self._offset_micros

    def from_database(self, reading: int) -> int:
        """Return the reading itself."""
        return reading

    async def measure(self) -> None:
        """Ask the database for its time, and compare this host's clock with it."""
        for _ in range(MEASUREMENTS_MAX):
            asked_at = self._elapsed()
            await self._measure_once()
            if self._elapsed() - asked_at <= ANSWER_NANOS_MAX:
                break

    async def _measure_once(self) -> None:
        before = self._host_clock()
        reading = await self._database.read(database_time)
        self._offset_micros = reading - self._elapsed() // 1_000
        after = self._host_clock()
        # The answer takes time. So if the reading is between the two times, the clocks agree.
        self.skew_micros = max(before - reading, 0) + min(after - reading, 0)


def clock_of(database: Database, url: str) -> DatabaseClock:
    """Return the clock of the database at this address."""
    return PostgresClock(database) if is_postgres(url) else SqliteClock()
