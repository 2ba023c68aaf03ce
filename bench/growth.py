"""Growth: measurements on ledgers that grow from a few thousand entries to many millions.

The history is written directly into the tables, account by account, with complete hash chains,
so `ousel verify` accepts it.
"""

import asyncio
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any, Final

import asyncpg
import msgspec

from bench.postgres import Postgres
from bench.processes import peak_megabytes
from ousel.database.addresses import is_postgres, open_database, sqlite_path
from ousel.kernel.clock import system_clock
from ousel.ledger import journal
from ousel.ledger.rules import Account, Entry, entry_hash
from ousel.sealed_log.keys import new_key, write_key
from ousel.workload import plans, sample_data
from ousel.workload.processes import Server, ousel_server, run_load_process

PARTNERS: Final = 100
RECIPIENTS: Final = 100_000
SIZES: Final = (10_000, 1_000_000, 10_000_000, 30_000_000, 100_000_000)
ENTRIES_AT_ONCE_MAX: Final = 5_000_000  # in one transaction
CONNECTIONS: Final = 64
ROUNDS: Final = 3
PORTAL_URL: Final = "http://127.0.0.1:8000"  # names the sealed log, whatever the server's port

_INSERT_ENTRY: Final = (
    f"INSERT INTO entries ({', '.join(journal.ENTRIES.names)})"  # noqa: S608 - constants
    f" VALUES ({', '.join('?' for _ in journal.ENTRIES.names)})"
)
_UPDATE_ACCOUNT: Final = (
    "UPDATE accounts SET balance = ?, sequence = ?, head_hash = ?, updated_at = ? WHERE id = ?"
)


class SizeResult(msgspec.Struct, frozen=True):
    """The results for a ledger of one size."""

    engine: str
    entries: int
    transfers: float  # per second, like the next three
    balances: float
    pages: float
    verified: float
    verify_megabytes: float = 0.0  # the most memory that verification used
    disk_bytes: int = 0


class GrowthReport(msgspec.Struct, frozen=True, kw_only=True):
    """The results at all sizes, and of which code they are."""

    measured_at: str
    commit: str
    remark: str = ""  # what else a reader of the figures must know
    sizes: list[SizeResult]


def measure_growth(
    postgres: Postgres, folder: Path, seconds: float, entries_max: int
) -> Iterator[SizeResult]:
    """Let a ledger grow on each engine to this size, and yield the results at each size."""
    sizes = [*(size for size in SIZES if size < entries_max), entries_max]
    file = folder / "growth.db"
    for leftover in folder.glob("growth*"):
        leftover.unlink()
    for engine, url in (
        ("sqlite", f"sqlite:///{file}"),
        ("postgresql", postgres.fresh_database("growth")),
    ):
        log_key = folder / f"growth-{engine}.log-key"
        write_key(log_key, new_key("ousel/log"))
        settings = {"OUSEL_LOG_KEY_FILE": str(log_key), "OUSEL_PORTAL_URL": PORTAL_URL}
        data = sample_data.create_sample_data(url, PARTNERS, RECIPIENTS)
        history = History(url)
        for entries in sizes:
            asyncio.run(history.grow(entries))
            result = _measure(engine, url, data, seconds, settings)
            used = file.stat().st_size if engine == "sqlite" else postgres.size("growth")
            yield msgspec.structs.replace(result, disk_bytes=used)


def _measure(
    engine: str,
    url: str,
    data: sample_data.SampleData,
    seconds: float,
    settings: Mapping[str, str],
) -> SizeResult:
    with ousel_server(url, workers=1, **settings) as server:
        rounds = [_rates(server, data, seconds) for _ in range(ROUNDS)]
    transfers, balances, pages = map(median, zip(*rounds, strict=True))
    with ThreadPoolExecutor(1) as pool:
        verifying = pool.submit(sample_data.verify_ledger, url)
        verify_megabytes = peak_megabytes("verify", until=verifying.done)
    verification = verifying.result()
    entries = 2 * verification.transfers
    return SizeResult(
        engine=engine,
        entries=entries,
        transfers=transfers,
        balances=balances,
        pages=pages,
        verified=entries / verification.seconds,
        verify_megabytes=verify_megabytes,
    )


def _rates(server: Server, data: sample_data.SampleData, seconds: float) -> list[float]:
    """Return the transfers, balance reads and list pages per second."""
    partner = {"Authorization": f"Bearer {data.keys[0]}"}
    cases = (
        plans.transfer_plan(server, data, "spread", CONNECTIONS, seconds),
        plans.read_plan(server, [("/v1/balance", partner)], CONNECTIONS, seconds),
        plans.read_plan(server, [("/v1/transfers", partner)], CONNECTIONS, seconds),
    )
    return [run_load_process(plan).rate for plan in cases]


class History:
    """Past transfers of a database, in which every partner pays the recipients in turn."""

    def __init__(self, url: str) -> None:
        """Write to this database."""
        self._url = url
        self._rounds = 0  # written so far; in each round, every partner pays one recipient

    async def grow(self, entries: int) -> None:
        """Append transfers until there are about this many entries."""
        for target in range(ENTRIES_AT_ONCE_MAX, entries, ENTRIES_AT_ONCE_MAX):
            await self._grow_at_once(target)
        await self._grow_at_once(entries)

    async def _grow_at_once(self, entries: int) -> None:
        accounts = await self._accounts()
        missing = entries - sum(account.sequence for account in accounts)
        partners = [each for each in accounts if each.username.startswith("partner")]
        recipients = [each for each in accounts if each.username.startswith("person")]
        rounds = max(missing // (2 * len(partners)), 0)
        turns = range(self._rounds, self._rounds + rounds)
        self._rounds += rounds
        rows = self._entries(partners, recipients, turns)
        if is_postgres(self._url):
            await _write_postgres(self._url, rows, partners + recipients)
        else:
            _write_sqlite(self._url, rows, partners + recipients)

    async def _accounts(self) -> list[Account]:
        async with open_database(self._url) as database:
            return await database.read(
                lambda transaction: journal.accounts_after(transaction, "", 10**9)
            )

    @staticmethod
    def _entries(
        partners: list[Account], recipients: list[Account], turns: range
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the entries account by account; in a turn, all partners pay the same recipient."""
        now = system_clock()
        for index, partner in enumerate(partners):
            for turn in turns:
                other = recipients[turn % len(recipients)]
                yield _entry(partner, other, -1, turn * len(partners) + index, now)
        for place, recipient in enumerate(recipients):
            first = turns.start + (place - turns.start) % len(recipients)
            for turn in range(first, turns.stop, len(recipients)):
                for index, partner in enumerate(partners):
                    yield _entry(recipient, partner, 1, turn * len(partners) + index, now)


def _entry(account: Account, other: Account, amount: int, number: int, now: int) -> tuple[Any, ...]:
    account.balance += amount
    account.sequence += 1
    account.updated_at = now
    entry = Entry(
        account.id,
        account.sequence,
        f"tr_{number:026d}",
        "transfer",
        amount,
        account.balance,
        other.id,
        None,
        None,
        f"history-{number:012d}" if amount < 0 else None,
        now,
        "",
    )
    account.head_hash = entry_hash(account.head_hash, entry)
    row: tuple[Any, ...] = msgspec.structs.astuple(entry)
    return (*row[:-1], account.head_hash)


def _write_sqlite(url: str, rows: Iterable[tuple[Any, ...]], accounts: list[Account]) -> None:
    connection = sqlite3.connect(sqlite_path(url))
    try:
        with connection:
            connection.executemany(_INSERT_ENTRY, rows)
            connection.executemany(_UPDATE_ACCOUNT, _account_updates(accounts))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()


async def _write_postgres(
    url: str, rows: Iterable[tuple[Any, ...]], accounts: list[Account]
) -> None:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await connection.copy_records_to_table(
                "entries", records=rows, columns=journal.ENTRIES.names
            )
            await connection.executemany(
                "UPDATE accounts SET balance = $1, sequence = $2, head_hash = $3, updated_at = $4"
                " WHERE id = $5",
                list(_account_updates(accounts)),
            )
        await connection.execute("VACUUM ANALYZE")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()


def _account_updates(accounts: list[Account]) -> Iterator[tuple[int, int, str, int, str]]:
    return (
        (account.balance, account.sequence, account.head_hash, account.updated_at, account.id)
        for account in accounts
    )
