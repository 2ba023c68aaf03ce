"""How many round trips to PostgreSQL a transfer takes."""

import asyncio

import pytest

from ousel.database.addresses import open_database
from ousel.kernel.clock import system_clock
from ousel.ledger.queue import PostingQueue
from tests.ledger.examples import posting
from tests.support.accounts import person
from tests.support.postgres_proxy import PostgresProxy


@pytest.mark.parametrize("together", [1, 16])
async def test_transfers_take_two_round_trips(proxy: PostgresProxy, together: int) -> None:
    """One or many transfers take two: begin and lock, then write and commit."""
    async with open_database(proxy.url) as database:
        ada = await person(database, "ada", "10")
        await person(database, "bob")
        queue = PostingQueue(database, system_clock, queue_limit=100)
        for _ in range(2):  # caches the recipient and prepares the statements
            await queue.post(posting(ada.id, "@bob", 1))
        proxy.round_trips = 0
        await asyncio.gather(*(queue.post(posting(ada.id, "@bob", 1)) for _ in range(together)))

    assert proxy.round_trips == 2


async def test_an_email_is_looked_up_for_every_batch(proxy: PostgresProxy) -> None:
    """It may name another account by now, so a batch with emails takes one round trip more."""
    async with open_database(proxy.url) as database:
        ada = await person(database, "ada", "10")
        await person(database, "bob")
        queue = PostingQueue(database, system_clock, queue_limit=100)
        for _ in range(2):
            await queue.post(posting(ada.id, "bob@example.com", 1))
        proxy.round_trips = 0
        await asyncio.gather(
            *(queue.post(posting(ada.id, "bob@example.com", 1)) for _ in range(16))
        )

    assert proxy.round_trips == 3


async def test_a_recipient_is_looked_up_once(proxy: PostgresProxy) -> None:
    """Only the first transfer to a recipient takes an additional round trip."""
    async with open_database(proxy.url) as database:
        ada = await person(database, "ada", "10")
        for name in ("bob", "eve"):
            await person(database, name)
        queue = PostingQueue(database, system_clock, queue_limit=100)
        for _ in range(2):
            await queue.post(posting(ada.id, "@bob", 1))
        round_trips = []
        for _ in range(2):
            proxy.round_trips = 0
            await queue.post(posting(ada.id, "@eve", 1))
            round_trips.append(proxy.round_trips)

    assert round_trips == [3, 2]
