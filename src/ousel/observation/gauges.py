"""Gauges: values that are read on request, rather than counted as things happen."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

import msgspec

from ousel.database.clock import DatabaseClock
from ousel.database.port import Connections, Database
from ousel.kernel.clock import MICROS_PER_SECOND, Clock
from ousel.kernel.errors import Refusal
from ousel.kernel.logs import EventLogger
from ousel.ledger.movements import oldest_unsealed_at
from ousel.ledger.queue import PostingQueue
from ousel.ledger.totals import LedgerTotals, read_totals
from ousel.mail.outbox import Outbox
from ousel.mail.rules import OutboxFigures

TOTALS_SECONDS: Final = 10.0  # the totals are cached for at least this long
TOTALS_FACTOR: Final = 20  # and, with one process, for this many times as long as reading took
TOTALS_SECONDS_MAX: Final = 600.0  # but never so long that the alert about old totals is raised
FAILURE_SECONDS_MAX: Final = 30.0  # before another attempt to read them
TOTALS_WAIT_SECONDS_MAX: Final = 2.0

_log = EventLogger()


class Gauges(msgspec.Struct, frozen=True, kw_only=True):
    """The state of this process and of the ledger at one moment."""

    queue_length: int
    queue_limit: int
    connections: Connections
    clock_skew_micros: int
    totals: LedgerTotals | None
    totals_read_at: float
    mail: OutboxFigures | None = None
    oldest_mail_seconds: float = 0.0
    oldest_unsealed_seconds: float | None = None


class GaugeReader:
    """Reads the gauges of this process."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        database_clock: DatabaseClock,
        queue: PostingQueue,
        outbox: Outbox,
        processes: int,
    ) -> None:
        """Read from this database, this queue and this outbox.

        Ages are those by `clock`, which in a sandbox may be ahead of the database's clock.
        `processes` is how many processes of this host read them.
        """
        self._database = database
        self._clock = clock
        self._database_clock = database_clock
        self._queue = queue
        self._outbox = outbox
        self._totals = CachedTotals(database, processes)

    async def read(self) -> Gauges:
        """Return the gauges as they are now; the ledger totals may be some seconds old."""
        (totals, read_at), read = await asyncio.gather(
            self._totals.get(), self._read_mail_and_log()
        )
        mail, unsealed_at = (None, None) if read is None else read
        mail_at = None if mail is None else mail.oldest_created_at
        return Gauges(
            queue_length=self._queue.waiting_count,
            queue_limit=self._queue.queue_limit,
            connections=self._database.connections(),
            clock_skew_micros=self._database_clock.skew_micros,
            totals=totals,
            totals_read_at=read_at,
            mail=mail,
            oldest_mail_seconds=self._age_seconds(mail_at),
            oldest_unsealed_seconds=None if mail is None else self._age_seconds(unsealed_at),
        )

    async def _read_mail_and_log(self) -> tuple[OutboxFigures, int | None] | None:
        """Return the figures of the outbox and the time of the oldest movement to be sealed.

        Return None if they cannot be read soon.
        """
        try:
            async with asyncio.timeout(TOTALS_WAIT_SECONDS_MAX):
                return await self._outbox.figures(), await self._database.read(oldest_unsealed_at)
        except (Refusal, TimeoutError):
            return None

    def _age_seconds(self, moment: int | None) -> float:
        """Return the seconds since this moment, or 0 if there is none."""
        return 0.0 if moment is None else max(self._clock() - moment, 0) / MICROS_PER_SECOND


class CachedTotals:
    """The ledger totals, cached in proportion to how long they take to read.

    Reading them scans all accounts. The slower that is, the longer the result is reused, so that
    metrics never take more than a small share of the database's time, whatever the number of
    processes.
    """

    def __init__(
        self,
        database: Database,
        processes: int = 1,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read from this database in each of the processes; `seconds` measures their age."""
        self._database = database
        self._factor = TOTALS_FACTOR * processes
        self._seconds = seconds
        self._cached: tuple[LedgerTotals | None, float] = (None, 0.0)
        self._fresh_until = seconds()
        self._reading: asyncio.Task[None] | None = None

    async def get(self) -> tuple[LedgerTotals | None, float]:
        """Return the totals, or None if they could not be read, and the time of reading."""
        if self._reading is None and self._seconds() >= self._fresh_until:
            self._reading = asyncio.create_task(self._read())
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=TOTALS_WAIT_SECONDS_MAX)
        return self._cached

    async def _read(self) -> None:
        started = self._seconds()
        seconds_max = TOTALS_SECONDS_MAX
        try:
            self._cached = (await self._database.snapshot(read_totals), time.time())
        except Refusal as refusal:
            _log.warning("the ledger totals could not be read", code=refusal.code)
            self._cached = (None, 0.0)
            seconds_max = FAILURE_SECONDS_MAX
        finally:
            ended = self._seconds()
            seconds = max(TOTALS_SECONDS, self._factor * (ended - started))
            self._fresh_until = ended + min(seconds, seconds_max)
            self._reading = None
