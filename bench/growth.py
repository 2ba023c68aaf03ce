"""Growth: measurements on ledgers that grow from a few thousand entries to many millions.

The history is written directly into the tables, account by account, with complete hash chains, and
then sealed. So `ousel verify` accepts it.
"""

import asyncio
import sqlite3
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import asyncpg
import msgspec

from bench.postgres import Postgres
from bench.processes import peak_megabytes
from ousel.database.addresses import is_postgres, open_database, sqlite_path
from ousel.database.port import Transaction
from ousel.kernel.clock import system_clock
from ousel.ledger import journal
from ousel.ledger.rules import Account, Entry, Movement, entry_hash
from ousel.sealed_log import store
from ousel.sealed_log.keys import LogKey, new_key, origin_at, write_key
from ousel.sealed_log.prepared_leaves import leaf_rows
from ousel.sealed_log.sealer import append_leaf_rows
from ousel.workload import plans, sample_data
from ousel.workload.processes import Server, ousel_server, run_load_process

PARTNERS: Final = 100
RECIPIENTS: Final = 100_000
SIZES: Final = (10_000, 1_000_000, 10_000_000, 30_000_000, 100_000_000)
ENTRIES_AT_ONCE_MAX: Final = 1_000_000  # in one transaction, and in memory
MOVEMENTS_SEALED_AT_ONCE: Final = 10_000
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
    added: int = 0  # movements since a checkpoint
    since_seconds: float = 0.0  # how long `ousel verify --since` took for them


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
        log_key, checkpoint = folder / f"growth-{engine}.log-key", folder / "growth.checkpoint"
        key = new_key(origin_at(PORTAL_URL))
        write_key(log_key, key)
        settings = {"OUSEL_LOG_KEY_FILE": str(log_key), "OUSEL_PORTAL_URL": PORTAL_URL}
        data = sample_data.create_sample_data(url, PARTNERS, RECIPIENTS)
        history = History(url, key)
        for entries in sizes:
            asyncio.run(history.grow(entries))
            result = _measure(engine, url, data, seconds, settings, checkpoint)
            used = file.stat().st_size if engine == "sqlite" else postgres.size("growth")
            yield msgspec.structs.replace(result, disk_bytes=used)


def _measure(
    engine: str,
    url: str,
    data: sample_data.SampleData,
    seconds: float,
    settings: Mapping[str, str],
    checkpoint: Path,  # the file for a checkpoint
) -> SizeResult:
    with ousel_server(url, workers=1, **settings) as server:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/log/checkpoint") as answer:
            checkpoint.write_bytes(answer.read())
        rounds = [_rates(server, data, seconds) for _ in range(ROUNDS)]
    transfers, balances, pages = map(median, zip(*rounds, strict=True))
    with ThreadPoolExecutor(1) as pool:
        verifying = pool.submit(sample_data.verify_ledger, url, **settings)
        verify_megabytes = peak_megabytes("verify", until=verifying.done)
    verification = verifying.result()
    since = sample_data.verify_since(url, checkpoint, **settings)
    entries = 2 * verification.transfers
    return SizeResult(
        engine=engine,
        entries=entries,
        transfers=transfers,
        balances=balances,
        pages=pages,
        verified=entries / verification.seconds,
        verify_megabytes=verify_megabytes,
        added=since.leaves_added,
        since_seconds=since.seconds,
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

    def __init__(self, url: str, log_key: LogKey) -> None:
        """Write to this database, and sign its log with this key."""
        self._url = url
        self._log_key = log_key
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
        paid = [
            recipients[turn % len(recipients)]
            for turn in range(self._rounds, self._rounds + rounds)
        ]
        transfers = _Transfers(partners, paid, self._rounds * len(partners))
        self._rounds += rounds
        changed = [*partners, *{each.id: each for each in paid}.values()]
        if is_postgres(self._url):
            await _write_postgres(self._url, transfers.rows(), changed)
        else:
            _write_sqlite(self._url, transfers.rows(), changed)
        await self._seal(transfers.movements())

    async def _accounts(self) -> list[Account]:
        async with open_database(self._url) as database:
            return await database.read(
                lambda transaction: journal.accounts_after(transaction, "", 10**9)
            )

    async def _seal(self, movements: Sequence[Movement]) -> None:
        async with open_database(self._url) as database:
            await database.write(store.create_head)
            for start in range(0, len(movements), MOVEMENTS_SEALED_AT_ONCE):
                some = movements[start : start + MOVEMENTS_SEALED_AT_ONCE]
                await database.write(partial(self._seal_some, some))

    async def _seal_some(self, movements: Sequence[Movement], transaction: Transaction) -> None:
        head = await store.lock_head(transaction, waits=True)
        assert head is not None
        await append_leaf_rows(transaction, head, leaf_rows(movements), self._log_key)


class _Transfers:
    """Transfers by which every partner pays these recipients, one after the other."""

    def __init__(self, partners: list[Account], paid: list[Account], first_number: int) -> None:
        self._partners = partners
        self._paid = paid
        self._first_number = first_number
        self._begun = system_clock()
        self._debits: list[Entry] = []  # partner by partner
        self._credits: list[Entry] = []

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of the entries: those of each partner, then what each was paid."""
        for place, partner in enumerate(self._partners):
            for turn, other in enumerate(self._paid):
                self._debits.append(self._append(partner, other, -1, turn, place))
                yield msgspec.structs.astuple(self._debits[-1])
        for turn, recipient in enumerate(self._paid):
            for place, partner in enumerate(self._partners):
                self._credits.append(self._append(recipient, partner, 1, turn, place))
                yield msgspec.structs.astuple(self._credits[-1])

    def movements(self) -> list[Movement]:
        """Return the transfers whose rows were yielded, in the order of their dates."""
        turns, width = len(self._paid), len(self._partners)
        return [
            Movement(self._debits[index % width * turns + index // width], credit)
            for index, credit in enumerate(self._credits)
        ]

    def _append(
        self, account: Account, other: Account, amount: int, turn: int, place: int
    ) -> Entry:
        """Return the account's next entry."""
        number = self._first_number + turn * len(self._partners) + place
        account.balance += amount
        account.sequence += 1
        account.updated_at = self._begun + turn
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
            account.updated_at,
            "",
        )
        account.head_hash = entry_hash(account.head_hash, entry)
        return msgspec.structs.replace(entry, hash=account.head_hash)


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
