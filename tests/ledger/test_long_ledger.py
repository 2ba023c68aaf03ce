"""One account with very many entries: verification works, and every page is equally fast."""

import asyncio
import fcntl
import os
import statistics
import time
from collections.abc import AsyncIterator, Callable
from functools import partial

import psutil
import pytest

from ousel.database.addresses import database_at
from ousel.database.port import Database, Transaction
from ousel.database.statements import Statement
from ousel.ledger.history import FIRST_SINCE, HISTORY, KINDS, HistoryQuery, page_of_entries
from ousel.ledger.verify import verify_database
from tests.faults.sizes import FULL, sized
from tests.ledger.long_ledger import (
    BEGIN,
    FUNDS,
    MICROS_BETWEEN,
    PARTNER_ENTRIES,
    PARTNER_ID,
    PEOPLE,
    fill,
)
from tests.support.engines import ENGINES, Engine, Engines
from tests.support.query_plans import postgres_plan

pytestmark = pytest.mark.slow

PAGE = 20
MIDDLE = PARTNER_ENTRIES // 2
DEEP = PARTNER_ENTRIES // PAGE // 2 + 1
RUNS = sized(20, 200)
RATIO_MAX = 2.0
MEMORY_GROWTH_BYTES_MAX = sized(24, 64) * 2**20

RecordProperty = Callable[[str, object], None]


@pytest.fixture(scope="session", params=ENGINES)
def long_ledger_url(
    request: pytest.FixtureRequest, engines: Engines, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """A ledger with a very long history, made once for each engine and shared by all workers."""
    engine: Engine = request.param
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    address = folder / f"million-{engine}.url"
    with (folder / f"million-{engine}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not address.exists():
            url = engines.fresh_url(engine, folder)
            asyncio.run(fill(url))
            address.write_text(url)
    return address.read_text()


@pytest.fixture
async def long_ledger(long_ledger_url: str) -> AsyncIterator[Database]:
    """The database with that ledger, open."""
    opened = database_at(long_ledger_url)
    await opened.open()
    yield opened
    await opened.close()


def engine_of(long_ledger: Database) -> str:
    return type(long_ledger).__name__.removesuffix("Database")


async def test_verification_takes_constant_memory(
    long_ledger: Database, record_property: RecordProperty
) -> None:
    """All entries are replayed page by page, and none is kept in memory."""
    process = psutil.Process()
    before = process.memory_info().rss
    peak = before

    def measure_memory(_: int) -> None:
        nonlocal peak
        peak = max(peak, process.memory_info().rss)

    started, started_cpu = time.perf_counter(), time.process_time()
    figures = await long_ledger.snapshot(partial(verify_database, progress=measure_memory))
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - started_cpu

    assert (figures.entries, figures.transfers) == (2 * PARTNER_ENTRIES, PARTNER_ENTRIES)
    assert (figures.accounts, figures.issued) == (PEOPLE + 2, FUNDS)
    assert peak - before < MEMORY_GROWTH_BYTES_MAX
    record_property(
        "figure",
        f"{engine_of(long_ledger)}: verified {figures.entries:,} entries in {seconds:.1f} s, "
        f"{figures.entries / seconds:,.0f} a second, {figures.entries / cpu_seconds:,.0f} a second "
        f"of its own processor time, {(peak - before) / 2**20:.0f} MiB more",
    )


async def test_a_page_is_read_by_its_index_without_sorting(long_ledger: Database) -> None:
    """The plan of a page reads the key backwards from the cursor and sorts nothing."""
    skip_if_distributed(long_ledger)
    lines = await long_ledger.read(plan_of_a_page)

    plan = "\n".join(lines)
    assert "Seq Scan" not in plan, plan
    assert "Sort" not in plan, plan
    assert "TEMP B-TREE" not in plan, plan
    assert not any(line.startswith(("SCAN entries", "SCAN counterparty")) for line in lines), plan
    assert (
        "Index Scan Backward using entries_pkey on entries" in plan
        or "SEARCH entries USING INDEX sqlite_autoindex_entries_1"
        " (account_id=? AND sequence>? AND sequence<?)"
        in plan
    ), plan


async def test_a_moment_is_found_by_the_index(long_ledger: Database) -> None:
    """The binary search looks single entries up by key, and never scans them."""
    skip_if_distributed(long_ledger)
    text = "\n".join(await long_ledger.read(plan_of_a_moment))

    assert "Seq Scan on entries" not in text, text
    assert "SCAN probe" not in text, text
    assert (
        "using entries_pkey on entries" in text
        or "SEARCH probe USING INDEX sqlite_autoindex_entries_1 (account_id=? AND sequence=?)"
        in text
    ), text


async def test_every_page_is_as_fast_as_the_first(
    long_ledger: Database, record_property: RecordProperty
) -> None:
    """Record the medians of the first page, a deep one and one found by its date.

    In full size, the deep page may not take twice as long as the first.
    """
    middle = BEGIN + PARTNER_ENTRIES // 2 * MICROS_BETWEEN
    queries = {
        "page 1": HistoryQuery(account_id=PARTNER_ID, limit=PAGE),
        f"page {DEEP:,}": HistoryQuery(
            account_id=PARTNER_ID,
            limit=PAGE,
            before_sequence=PARTNER_ENTRIES - (DEEP - 1) * PAGE + 1,
        ),
        "a page by date": HistoryQuery(account_id=PARTNER_ID, limit=PAGE, created_before=middle),
    }
    seconds: dict[str, list[float]] = {name: [] for name in queries}
    for _ in range(RUNS):
        for name, query in queries.items():
            started = time.perf_counter()
            page = await long_ledger.read(partial(page_of_entries, query=query))
            seconds[name].append(time.perf_counter() - started)
            assert len(page) == PAGE + 1

    medians = {name: statistics.median(times) for name, times in seconds.items()}
    each_page = ", ".join(f"{name} {median * 1e6:,.0f} µs" for name, median in medians.items())
    ratio = medians[f"page {DEEP:,}"] / medians["page 1"]
    record_property(
        "figure",
        f"{engine_of(long_ledger)}: {each_page}; page {DEEP:,} takes {ratio:.2f} of page 1",
    )
    assert not FULL or ratio < RATIO_MAX


async def test_a_cursor_or_a_date_finds_the_right_page(long_ledger: Database) -> None:
    """Deep in the history, a cursor and a date find exactly the entries before them."""
    by_cursor = HistoryQuery(account_id=PARTNER_ID, limit=PAGE, before_sequence=MIDDLE + 1)
    by_date = HistoryQuery(
        account_id=PARTNER_ID, limit=PAGE, created_before=BEGIN + MIDDLE * MICROS_BETWEEN
    )

    for query in (by_cursor, by_date):
        page = await long_ledger.read(partial(page_of_entries, query=query))
        assert [entry.sequence for entry, _ in page] == list(range(MIDDLE, MIDDLE - PAGE - 1, -1))


def skip_if_distributed(database: Database) -> None:
    if database.is_distributed():
        pytest.skip("on Citus, each worker makes its own plans")


async def plan_of_a_page(transaction: Transaction) -> list[str]:
    values = {
        "account_id": PARTNER_ID,
        "amount_min": -(2**62),
        "amount_max": 2**62,
        "kinds": list(KINDS),
        "first": 1,
        "before": 2**62,
        "limit": PAGE,
    }
    return await plan(transaction, HISTORY, values)


async def plan_of_a_moment(transaction: Transaction) -> list[str]:
    return await plan(transaction, FIRST_SINCE, {"account_id": PARTNER_ID, "moment": BEGIN})


async def plan(
    transaction: Transaction, statement: Statement, values: dict[str, object]
) -> list[str]:
    """Return the lines of a statement's plan; on PostgreSQL it is the generic plan."""
    if "Sqlite" in type(transaction).__name__:
        explain = Statement("explain", f"EXPLAIN QUERY PLAN {statement.text}")
        return [str(row[3]) for row in await transaction.fetch(explain, **values)]
    return await postgres_plan(transaction, statement)
