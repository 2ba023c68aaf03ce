"""The ledger's figures are right, read seldom, and omitted if they cannot be read."""

import time
from pathlib import Path

import pytest
from typing_extensions import override

from ousel.database.clock import SqliteClock
from ousel.database.port import Connections, Database, Result, Work
from ousel.kernel.clock import MICROS_PER_SECOND
from ousel.kernel.errors import DatabaseUnavailable
from ousel.kernel.settings import Settings
from ousel.ledger.totals import LedgerTotals, read_totals
from ousel.mail.outbox import Outbox
from ousel.observation.gauges import CachedTotals, GaugeReader, Gauges
from ousel.observation.metrics import Metrics
from ousel.observation.prometheus import PrometheusExporter
from tests.sealed_log.logs import Log
from tests.support.accounts import person, verify
from tests.support.delegating_database import DelegatingDatabase


class SlowDatabase(DelegatingDatabase):
    """A database whose snapshots take as long as the test says, or fail."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.now = 0.0
        self.takes = 0.0
        self.away = False
        self.snapshots = 0

    def seconds(self) -> float:
        """The time by the test's own clock."""
        return self.now

    @override
    async def snapshot(self, work: Work[Result]) -> Result:
        self.snapshots += 1
        self.now += self.takes
        if self.away:
            raise DatabaseUnavailable("The test says so.")
        return await self._database.snapshot(work)


def test_figures_that_are_not_known_are_left_out() -> None:
    """The output then lacks the figures of the ledger only."""
    nothing = Connections(in_use=0, idle=0)
    unknown = Gauges(
        queue_length=0,
        queue_limit=1,
        connections=nothing,
        clock_skew_micros=0,
        totals=None,
        totals_read_at=0,
    )

    text = PrometheusExporter(Metrics(), {}).render(unknown).decode()

    assert "ousel_ledger" not in text
    assert "ousel_posting_queue_limit 1.0" in text


async def test_the_figures_are_those_that_verify_proves(database: Database) -> None:
    """With no money at all, and with some."""
    assert await database.snapshot(read_totals) == LedgerTotals(1, 0, 0, 0)
    await person(database, "ada", "12.5")
    await person(database, "grace", "0.000001")

    totals = await database.snapshot(read_totals)

    figures = await verify(database)
    assert totals == LedgerTotals(figures.accounts, figures.entries, 0, figures.issued)
    assert (totals.accounts, totals.entries, totals.issued) == (3, 4, 12_500_001)


async def test_they_are_kept_for_ten_seconds(database: Database) -> None:
    """Repeated requests within that time read nothing."""
    slow = SlowDatabase(database)
    cached = CachedTotals(slow, seconds=slow.seconds)

    first, read_at = await cached.get()
    await person(database, "ada", "1")
    slow.now += 9.9
    again, _ = await cached.get()
    slow.now += 0.2
    fresh, _ = await cached.get()

    assert first == again == LedgerTotals(1, 0, 0, 0)
    assert fresh == LedgerTotals(2, 2, 0, 1_000_000)
    assert slow.snapshots == 2
    assert abs(read_at - time.time()) < 60


@pytest.mark.parametrize("processes", [1, 4])
async def test_what_took_long_to_read_is_kept_longer(database: Database, processes: int) -> None:
    """Never more than a twentieth of the time goes into it, by all processes together."""
    slow = SlowDatabase(database)
    slow.takes = 3.0
    cached = CachedTotals(slow, processes, slow.seconds)

    await cached.get()
    slow.now += 60.0 * processes - 1.0
    await cached.get()
    assert slow.snapshots == 1
    slow.now += 2.0
    await cached.get()
    assert slow.snapshots == 2


async def test_figures_that_cannot_be_read_are_none_at_all(database: Database) -> None:
    """No old figure is shown; the figures come back with the database."""
    slow = SlowDatabase(database)
    cached = CachedTotals(slow, seconds=slow.seconds)
    assert (await cached.get())[0] is not None

    slow.away, slow.takes = True, 15.0
    slow.now += 11
    assert (await cached.get())[0] is None
    slow.away, slow.takes = False, 0.0
    slow.now += 31
    assert (await cached.get())[0] is not None


async def test_mail_and_log_are_watched_even_if_the_totals_cannot_be_read(
    database: Database, tmp_path: Path
) -> None:
    """Only the figures that are missing are left out."""
    log, clock = Log(database, tmp_path), SqliteClock()
    slow = SlowDatabase(database)
    slow.away = True

    gauges = await GaugeReader(
        slow, clock, clock, log.queue, Outbox(database, clock, Settings()), processes=1
    ).read()

    assert gauges.totals is None
    assert gauges.mail is not None
    assert gauges.oldest_unsealed_seconds == 0


class ClockAhead(SqliteClock):
    """A clock that shows the time of an hour later."""

    @override
    def __call__(self) -> int:
        return super().__call__() + 3_600 * MICROS_PER_SECOND


async def test_the_age_of_the_oldest_unsealed_movement(database: Database, tmp_path: Path) -> None:
    """It is by the clock of the sandbox, and 0 as soon as everything is sealed."""
    log, clock = Log(database, tmp_path), ClockAhead()
    outbox = Outbox(database, clock, Settings())
    reader = GaugeReader(database, clock, SqliteClock(), log.queue, outbox, processes=1)
    await person(database, "ada", "1")

    unsealed = await reader.read()
    await log.sealer.seal_all()
    sealed = await reader.read()

    assert unsealed.oldest_unsealed_seconds is not None
    assert unsealed.oldest_unsealed_seconds >= 3_500
    assert sealed.oldest_unsealed_seconds == 0
