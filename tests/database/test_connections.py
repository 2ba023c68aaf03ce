"""Connections of a database: how many are in use, and who waits for them."""

import asyncio
import threading

import pytest

from ousel.database.port import Connections, Database, Transaction
from ousel.database.postgres import PostgresDatabase
from ousel.database.sqlite import SqliteDatabase
from tests.database.sample_rows import add_row, committed_rows, fetch_rows


async def test_a_connection_is_in_use_while_it_writes(database: Database) -> None:
    """One connection is in use during a transaction, none before and after it."""
    await committed_rows(database)
    before = database.connections()

    async def write(transaction: Transaction) -> Connections:
        await add_row(transaction, "a")
        return database.connections()

    during = await database.write(write)

    assert before.in_use == database.connections().in_use == 0
    assert before.idle >= 1
    assert during.in_use == 1


async def test_a_long_snapshot_does_not_block_others(sqlite: SqliteDatabase) -> None:
    """Reads and writes continue while a snapshot reads a whole SQLite file."""
    begun, done = threading.Event(), threading.Event()

    async def walk(transaction: Transaction) -> tuple[dict[str, str], bool]:
        seen = await fetch_rows(transaction)
        begun.set()
        return seen, done.wait(20)

    async with asyncio.TaskGroup() as group:
        walking = group.create_task(sqlite.snapshot(walk))
        assert await asyncio.to_thread(begun.wait, 20)
        await sqlite.write(lambda transaction: add_row(transaction, "meanwhile"))
        assert await committed_rows(sqlite) == {"meanwhile": ""}
        done.set()

    assert walking.result() == ({}, True)


async def test_more_callers_than_connections_take_turns(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Callers wait for the next free connection; never more than the maximum are opened."""
    monkeypatch.setattr("ousel.database.postgres.READ_CONNECTIONS_MAX", 2)
    database = PostgresDatabase(postgres_url)
    await database.open()
    pair = asyncio.Barrier(2)  # needs two connections at the same time

    async def work(transaction: Transaction) -> int:
        await fetch_rows(transaction)
        await pair.wait()
        return database.connections().in_use

    async with asyncio.timeout(20):
        in_use = await asyncio.gather(*(database.read(work) for _ in range(20)))

    assert max(in_use) == 2
    assert database.connections() == Connections(in_use=0, idle=2)
    await database.close()
