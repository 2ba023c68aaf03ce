"""One description of a call gives a plain method of one client and a coroutine of the other.

mypy checks the types in this file, and the tests check them at run time.
"""

import inspect
from collections.abc import AsyncIterator, Iterator
from typing import assert_type

from ousel_client import (
    AsyncClient,
    AsyncFollow,
    Balance,
    Charge,
    Client,
    Follow,
    OwnAccount,
    Transfer,
    TransferIntent,
)
from ousel_client.charges import Charges
from ousel_client.transfers import Transfers
from tests.support.seeded import SeededServer


def test_the_types_of_the_synchronous_client(live: SeededServer) -> None:
    """Calls return records, and lists return iterators."""
    with Client(live.key, base_url=live.base_url) as client:
        assert isinstance(assert_type(client.me(), OwnAccount), OwnAccount)
        intent = assert_type(client.transfers.prepare(to="@ada", amount=1), TransferIntent)
        assert isinstance(assert_type(client.transfers.send(intent), Transfer), Transfer)
        sent = assert_type(client.transfers.send(to="@ada", amount="1"), Transfer)
        assert isinstance(sent, Transfer)
        found = assert_type(client.transfers.find(idempotency_key="none"), Transfer | None)
        assert found is None
        transfers = assert_type(client.transfers.list(page_size=1), Iterator[Transfer])
        assert next(transfers) == sent
        assert list(assert_type(client.charges.list(), Iterator[Charge])) == []
        follow = assert_type(client.transfers.follow(), Follow)
        assert next(follow).sequence == 1


async def test_the_types_of_the_asyncio_client(live: SeededServer) -> None:
    """Calls return coroutines of records, and lists return asynchronous iterators."""
    async with AsyncClient(live.key, base_url=live.base_url) as client:
        assert isinstance(assert_type(await client.balance(), Balance), Balance)
        intent = assert_type(client.transfers.prepare(to="@ada", amount=1), TransferIntent)
        assert isinstance(assert_type(await client.transfers.send(intent), Transfer), Transfer)
        sent = assert_type(await client.transfers.send(to="@ada", amount="1"), Transfer)
        assert isinstance(sent, Transfer)
        transfers = assert_type(client.transfers.list(page_size=1), AsyncIterator[Transfer])
        assert isinstance(await anext(transfers), Transfer)
        follow = assert_type(client.transfers.follow(sent.sequence - 1), AsyncFollow)
        assert await anext(follow) == sent


def test_a_call_shows_its_documentation(live: SeededServer) -> None:
    """Each call has its own name, documentation and parameters for `help` and `inspect`."""
    described = vars(Charges)["wait"]
    assert "paid, canceled or expired" in described.__doc__
    assert list(inspect.signature(Transfers.find).parameters) == [
        "self",
        "idempotency_key",
    ]
    with Client(live.key, base_url=live.base_url) as client:
        assert client.charges.cancel.__name__ == "cancel"
        assert "Cancel the charge" in (client.charges.cancel.__doc__ or "")
