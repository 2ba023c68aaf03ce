"""Servers of the cluster are killed, and shards are moved, under load: nothing lost or doubled."""

import asyncio
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest

from ousel.database.addresses import open_database
from tests.cli.commands import ousel_process
from tests.faults.load import WORKERS, Load, assert_settled_exactly_once
from tests.faults.sizes import sized
from tests.support.accounts import person, unique_name
from tests.support.citus_cluster import CitusCluster, CitusNode
from tests.support.figures import Figure
from tests.support.seeded import SeededDatabase
from tests.support.server import Server
from tests.support.waiting import until, until_async

pytestmark = pytest.mark.slow

KILLS = sized(1, 200)
MOVES = sized(1, 20)
HUNG_SECONDS = sized(40.0, 120.0)
BACKENDS_MAX = 10  # as the documentation says
BACKENDS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE application_name = 'ousel' AND datname = current_database()
"""
PREPARED = "SELECT gid FROM pg_prepared_xacts WHERE database = '{database}'"
PLACEMENTS = """
    SELECT shardid, nodeport FROM citus_shards
    WHERE table_name = 'accounts'::regclass ORDER BY shardid
"""
PORTS = """
    SELECT DISTINCT nodeport FROM citus_shards JOIN unnest(ARRAY[{ids}]) AS id
    ON shardid = get_shard_id_for_distribution_column('accounts', id)
"""
MOVE = (
    "SELECT citus_move_shard_placement({shard}, '127.0.0.1', {source}, '127.0.0.1', {target},"
    " shard_transfer_mode := 'force_logical')"
)


@pytest.mark.parametrize("role", ["worker", "coordinator"])
async def test_a_killed_server_of_the_cluster_loses_and_doubles_nothing(
    role: str, cluster: CitusCluster, seeded: SeededDatabase, chance: random.Random, figure: Figure
) -> None:
    """Retries succeed as soon as it is back, and no prepared transaction is left."""

    def choose() -> CitusNode:
        return chance.choice(cluster.workers) if role == "worker" else cluster.coordinator

    async with _under_load(seeded, cluster) as (load, _):
        for _ in range(KILLS):
            await load.progress()
            await asyncio.sleep(chance.uniform(0, 0.2))  # the kill comes at a random moment
            node = choose()
            await asyncio.to_thread(node.stop)
            await asyncio.to_thread(node.start)
        await load.progress()

    figure(f"citus: {KILLS} kills of a {role}, {_counts(load)}")


async def test_a_killed_ousel_loses_and_doubles_nothing(
    cluster: CitusCluster, seeded: SeededDatabase, chance: random.Random, figure: Figure
) -> None:
    """What it left unfinished on the servers of the cluster does not stop the next process."""
    async with _under_load(seeded, cluster) as (load, server):
        for _ in range(KILLS):
            await load.progress()
            await asyncio.sleep(chance.uniform(0, 0.2))  # the kill comes at a random moment
            server.process.kill()
            await asyncio.to_thread(server.stop)
            await asyncio.to_thread(server.__enter__)
        await load.progress()

    figure(f"citus: {KILLS} kills of Ousel, {_counts(load)}")


async def test_shards_that_are_moved_lose_and_double_nothing(
    cluster: CitusCluster, seeded: SeededDatabase, chance: random.Random, figure: Figure
) -> None:
    """Each shard moves to the other worker, with all tables of the same accounts."""
    name = seeded.url.rpartition("/")[2]
    one, other = (worker.port for worker in cluster.workers)
    async with _under_load(seeded, cluster) as (load, _):
        for _ in range(MOVES):
            await load.progress()
            placements = await cluster.coordinator.fetch(name, PLACEMENTS)
            shard, source = chance.choice(placements)
            target = other if source == one else one
            move = MOVE.format(shard=shard, source=source, target=target)
            await cluster.coordinator.fetch(name, move)
        await load.progress()

    figure(f"citus: {MOVES} shards moved under load, {_counts(load)}")


async def test_a_hung_worker_loses_and_doubles_nothing(
    cluster: CitusCluster, seeded: SeededDatabase, chance: random.Random, figure: Figure
) -> None:
    """Callers are refused while batches wait for it; when it continues, retries succeed."""
    hung = chance.choice(cluster.workers)
    async with _under_load(seeded, cluster) as (load, _):
        await load.progress()
        hung.signal(signal.SIGSTOP)
        try:
            await until(lambda: load.refused.total() >= WORKERS or load.wrong)
        finally:
            hung.signal(signal.SIGCONT)
        await load.progress()

    figure(f"citus: a worker hung and continued, {_counts(load)}")


async def test_a_hung_worker_does_not_pile_up_connections(
    cluster: CitusCluster, seeded: SeededDatabase, figure: Figure
) -> None:
    """An abandoned commit keeps its place in the pool, so the coordinator is not exhausted."""
    counts: list[int] = []
    name = seeded.url.rpartition("/")[2]
    async with _under_load(seeded, cluster) as (load, _):
        await load.progress()
        cluster.workers[0].signal(signal.SIGSTOP)
        try:
            until_seconds = time.monotonic() + HUNG_SECONDS
            while time.monotonic() < until_seconds:
                [(count,)] = await cluster.coordinator.fetch(name, BACKENDS)
                counts.append(int(str(count)))
                await asyncio.sleep(0.5)
        finally:
            cluster.workers[0].signal(signal.SIGCONT)
        await load.progress()

    figure(f"citus: {max(counts)} backends while a worker hung, {_counts(load)}")
    assert max(counts) <= BACKENDS_MAX


async def test_transfers_of_other_workers_go_on_once_a_hung_worker_is_killed(
    cluster: CitusCluster, seeded: SeededDatabase, figure: Figure
) -> None:
    """The locks that waited for it are released, and no account of these transfers is on it."""
    hung, people = await _worker_without_partner(cluster, seeded)
    seeded = msgspec.structs.replace(seeded, people=people)
    async with _under_load(seeded, cluster) as (load, _):
        await _acknowledge(load, 2 * WORKERS)  # the recipients are cached now
        hung.signal(signal.SIGSTOP)
        try:
            await until(lambda: load.refused or load.wrong)
        finally:
            await asyncio.to_thread(hung.kill_hung)
        try:
            await _acknowledge(load, 100)
        finally:
            await asyncio.to_thread(hung.start)

    figure(f"citus: a worker hung and was killed, {_counts(load)}")


async def _acknowledge(load: Load, count: int) -> None:
    """Wait until this many more transfers are acknowledged."""
    wanted = len(load.acknowledged) + count
    await until(lambda: len(load.acknowledged) >= wanted or load.wrong)


async def _worker_without_partner(
    cluster: CitusCluster, seeded: SeededDatabase
) -> tuple[CitusNode, tuple[str, ...]]:
    """Return a worker that lacks the partner's account, and people whose accounts it lacks too."""

    async def is_with_partner(account_id: str) -> bool:
        ids = f"'{account_id}', '{seeded.account.id}'"
        return len(await cluster.coordinator.fetch(name, PORTS.format(ids=ids))) == 1

    name = seeded.url.rpartition("/")[2]
    [(port,)] = await cluster.coordinator.fetch(name, PORTS.format(ids=f"'{seeded.account.id}'"))
    people: list[str] = []
    async with open_database(seeded.url) as database:
        while len(people) < 3:
            account = await person(database, unique_name())
            if await is_with_partner(account.id):
                people.append(account.username)
    return next(each for each in cluster.workers if each.port != port), tuple(people)


@asynccontextmanager
async def _under_load(
    seeded: SeededDatabase, cluster: CitusCluster
) -> AsyncIterator[tuple[Load, Server]]:
    """Send transfers during the block; then check that each was made once, and that all is over."""
    with Server(seeded.url, OUSEL_LOG_LEVEL="error") as server:
        load = Load(seeded, server.port, between_seconds=0)
        async with load.running():
            yield load, server
        print(server.stop())
    await until_async(_is_settled(cluster, seeded.url.rpartition("/")[2]))
    await assert_settled_exactly_once(load)
    verified = ousel_process("verify", "--json", database=seeded.url)
    assert verified.json["result"] == "the books balance"


def _is_settled(cluster: CitusCluster, database: str) -> Callable[[], Awaitable[object]]:
    async def is_settled() -> bool:
        left = [
            row
            for node in cluster.nodes
            for row in await node.fetch("postgres", PREPARED.format(database=database))
        ]
        return not left

    return is_settled


def _counts(load: Load) -> str:
    return (
        f"{len(load.acknowledged)} transfers, each once; {load.replayed} had moved though their"
        f" answer was lost; refused: {dict(load.refused)}"
    )
