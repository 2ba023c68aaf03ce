"""The ledger's figures: right, read seldom, and left out when they cannot be read."""

import time

from typing_extensions import override

from ousel.database.port import Connections, Database, Result, Work
from ousel.kernel.errors import DatabaseUnavailable
from ousel.ledger.totals import LedgerTotals, read_totals
from ousel.observation.gauges import CachedTotals, Gauges
from ousel.observation.metrics import Metrics
from ousel.observation.prometheus import PrometheusExporter
from tests.support.accounts import person, verify
from tests.support.delegating_database import DelegatingDatabase


class Costly(DelegatingDatabase):
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
    """The text then has no word of the ledger, and all the rest."""
    nothing = Connections(in_use=0, idle=0)
    unknown = Gauges(
        queue_length=0, queue_limit=1, connections=nothing, totals=None, totals_read_at=0
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
    """However often somebody asks meanwhile."""
    costly = Costly(database)
    cached = CachedTotals(costly, costly.seconds)

    first, read_at = await cached.get()
    await person(database, "ada", "1")
    costly.now += 9.9
    again, _ = await cached.get()
    costly.now += 0.2
    fresh, _ = await cached.get()

    assert first == again == LedgerTotals(1, 0, 0, 0)
    assert fresh == LedgerTotals(2, 2, 0, 1_000_000)
    assert costly.snapshots == 2
    assert abs(read_at - time.time()) < 60


async def test_what_took_long_to_read_is_kept_longer(database: Database) -> None:
    """Twenty times as long as it took: never more than a twentieth of the time goes into it."""
    costly = Costly(database)
    costly.takes = 3.0
    cached = CachedTotals(costly, costly.seconds)

    await cached.get()
    costly.now += 59.0
    await cached.get()
    assert costly.snapshots == 1
    costly.now += 2.0
    await cached.get()
    assert costly.snapshots == 2


async def test_figures_that_cannot_be_read_are_none_at_all(database: Database) -> None:
    """An old figure would hide that; they are back when the database is."""
    costly = Costly(database)
    cached = CachedTotals(costly, costly.seconds)
    assert (await cached.get())[0] is not None

    costly.away = True
    costly.now += 11
    assert (await cached.get())[0] is None
    costly.away = False
    costly.now += 11
    assert (await cached.get())[0] is not None
