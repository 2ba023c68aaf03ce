"""Gauges: what is read at the moment that somebody looks, rather than counted on the way."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from ousel.database.port import Connections, Database
from ousel.kernel.errors import Refusal
from ousel.ledger.posting import PostingQueue
from ousel.ledger.totals import LedgerTotals, read_totals

TOTALS_SECONDS: Final = 10.0  # how old the ledger's figures may be at the least
TOTALS_SHARE: Final = 20  # and how many times longer they last than they took to read
TOTALS_WAIT_SECONDS_MAX: Final = 2.0

_log = structlog.get_logger()


class Gauges(msgspec.Struct, frozen=True, kw_only=True):
    """The process and its ledger at one moment."""

    queue_length: int
    queue_limit: int
    connections: Connections
    totals: LedgerTotals | None
    totals_read_at: float


class GaugeReader:
    """Reads the gauges."""

    def __init__(self, database: Database, queue: PostingQueue) -> None:
        """Read them from these."""
        self._database = database
        self._queue = queue
        self._totals = CachedTotals(database)

    async def read(self) -> Gauges:
        """Return the gauges as they are now; the ledger's figures may be some seconds old."""
        totals, read_at = await self._totals.get()
        return Gauges(
            queue_length=self._queue.queue_length,
            queue_limit=self._queue.queue_limit,
            connections=self._database.connections(),
            totals=totals,
            totals_read_at=read_at,
        )


class CachedTotals:
    """The ledger's figures, read anew when they are old.

    To read them takes a walk over all accounts. The longer that takes, the longer they are kept,
    so that watching never costs the database more than a small share of its time.
    """

    def __init__(self, database: Database, seconds: Callable[[], float] = time.monotonic) -> None:
        """Read from this database; `seconds` is the clock to grow old by."""
        self._database = database
        self._seconds = seconds
        self._known: tuple[LedgerTotals | None, float] = (None, 0.0)
        self._good_until = seconds()
        self._reading: asyncio.Task[None] | None = None

    async def get(self) -> tuple[LedgerTotals | None, float]:
        """Return the figures, if the database could be read, and when that was."""
        if self._reading is None and self._seconds() >= self._good_until:
            self._reading = asyncio.create_task(self._read())
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=TOTALS_WAIT_SECONDS_MAX)
        return self._known

    async def _read(self) -> None:
        started = self._seconds()
        try:
            self._known = (await self._database.snapshot(read_totals), time.time())
        except Refusal as refusal:
            _log.warning("the ledger's figures could not be read", code=refusal.code)
            self._known = (None, 0.0)
        finally:
            ended = self._seconds()
            self._good_until = ended + max(TOTALS_SECONDS, TOTALS_SHARE * (ended - started))
            self._reading = None
