"""Books that exist on one PostgreSQL server are distributed in place, and served again."""

import asyncio

import httpx2
import pytest

from bench.growth import History
from ousel.database.citus import DISTRIBUTION_COLUMNS, REFERENCE_TABLES, SINGLE_SHARD_TABLES
from ousel.sealed_log.keys import new_key
from ousel.workload.sample_data import create_sample_data
from tests.cli.commands import ousel_process
from tests.faults.sizes import sized
from tests.support.citus_cluster import CitusCluster
from tests.support.figures import Figure
from tests.support.seeded import SeededDatabase, seed_database
from tests.support.server import Server

pytestmark = pytest.mark.slow

TABLES = len(DISTRIBUTION_COLUMNS) + len(REFERENCE_TABLES) + len(SINGLE_SHARD_TABLES)
TRANSFERS = 10
OLDER_ENTRIES = sized(100, 1_000_000)


async def test_any_server_of_the_cluster_can_be_asked(
    seeded: SeededDatabase, cluster: CitusCluster
) -> None:
    """Two processes, of which one is connected to a worker, serve the same books."""
    name = seeded.url.rpartition("/")[2]
    with Server(seeded.url) as one, Server(cluster.workers[0].url(name)) as other:
        async with one.client(seeded.key) as client, other.client(seeded.key) as same:
            await _send(seeded, client, 0, status=201)
            await _send(seeded, same, 0, status=200)
            await _send(seeded, same, 1, status=201)
            charge = (await same.post("/charges", json={"amount": 2.5})).json()
            found = (await client.get(f"/charges/{charge['id']}")).json()
            assert found["status"] == "created"


async def test_existing_books_are_distributed_in_place(plain_url: str, figure: Figure) -> None:
    """What was written before is found, replayed and canceled; the ledger verifies as before."""
    await asyncio.to_thread(create_sample_data, plain_url, partners=10, recipients=100)
    await History(plain_url, new_key("tests.example/log")).grow(OLDER_ENTRIES)
    before = await seed_database(plain_url)
    with Server(plain_url) as server:
        async with server.client(before.key) as client:
            for number in range(TRANSFERS):
                await _send(before, client, number, status=201)
            charge = (await client.post("/charges", json={"amount": 2.5})).json()
    verified = ousel_process("verify", "--json", database=plain_url).json

    distributed = ousel_process("migrate", "--distribute", "--json", database=plain_url).json
    again = ousel_process("migrate", "--distribute", "--json", database=plain_url).json

    assert distributed["tables_distributed"] == TABLES
    assert again["tables_distributed"] == 0
    after = ousel_process("verify", "--json", database=plain_url).json
    assert after | {"seconds": 0} == verified | {"seconds": 0}
    with Server(plain_url) as server:
        async with server.client(before.key) as client:
            await _send(before, client, 0, status=200)
            await _send(before, client, TRANSFERS, status=201)
            found = (await client.get(f"/charges/{charge['id']}")).json()
            assert found | {"checkout_url": ""} == charge | {"checkout_url": ""}
            canceled = await client.post(f"/charges/{charge['id']}/cancel")
            assert canceled.json()["status"] == "canceled"
    assert (
        ousel_process("verify", "--json", database=plain_url).json["result"] == "the books balance"
    )
    assert after["entries"] >= OLDER_ENTRIES
    figure(f"citus: {after['entries']} entries distributed in place, verified before and after")


async def _send(
    seeded: SeededDatabase, client: httpx2.AsyncClient, number: int, *, status: int
) -> None:
    headers = {"Idempotency-Key": f"key-{number}"}
    body = {"to": f"@{seeded.people[number % len(seeded.people)]}", "amount": 0.25}
    answer = await client.post("/transfers", json=body, headers=headers)
    assert answer.status_code == status, answer.text
