"""Transactions that wait for each other on two servers are repeated until both are committed."""

import asyncio

import pytest

from ousel.database.addresses import open_database
from ousel.database.port import Database, Transaction
from ousel.ledger.journal import wait_for_account
from tests.support.accounts import person, unique_name
from tests.support.citus_cluster import CitusCluster

pytestmark = pytest.mark.slow

NODE = (
    "SELECT nodeport FROM citus_shards"
    " WHERE shardid = get_shard_id_for_distribution_column('accounts', '{id}')"
)


async def test_a_deadlock_between_servers_is_repeated(
    database_url: str, cluster: CitusCluster
) -> None:
    """No server sees the deadlock alone; the transaction that is canceled runs again."""
    async with open_database(database_url) as database:
        one, other = await _accounts_on_two_servers(database, cluster, database_url)
        has_locked = {one: asyncio.Event(), other: asyncio.Event()}
        attempts: list[str] = []

        async def lock_both(transaction: Transaction, first: str, second: str) -> None:
            attempts.append(first)
            await wait_for_account(transaction, first)
            has_locked[first].set()
            await has_locked[second].wait()
            await wait_for_account(transaction, second)

        await asyncio.gather(
            database.write(lambda transaction: lock_both(transaction, one, other)),
            database.write(lambda transaction: lock_both(transaction, other, one)),
        )

    assert len(attempts) > 2


async def _accounts_on_two_servers(
    database: Database, cluster: CitusCluster, url: str
) -> tuple[str, str]:
    accounts: dict[object, str] = {}  # by the port of the server
    while len(accounts) < 2:
        account = await person(database, unique_name())
        question = NODE.format(id=account.id)
        [(port,)] = await cluster.coordinator.fetch(url.rpartition("/")[2], question)
        accounts[port] = account.id
    one, other = accounts.values()
    return one, other
