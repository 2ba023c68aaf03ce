"""One description of a call is a plain method of the one client and a coroutine of the other.

The types are checked by mypy over this file, and the same at run time.
"""

import inspect
from collections.abc import AsyncIterator, Iterator
from typing import assert_type

from ousel_client import (
    AsyncClient,
    Balance,
    Charge,
    Client,
    OwnAccount,
    Transfer,
    TransferIntent,
)
from ousel_client.charges import Charges
from ousel_client.transfers import Transfers
from tests.support.seeded import SeededServer


def test_what_a_waiting_client_returns(live: SeededServer) -> None:
    """Records, and iterators over them."""
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


async def test_what_an_awaiting_client_returns(live: SeededServer) -> None:
    """The same, awaited."""
    async with AsyncClient(live.key, base_url=live.base_url) as client:
        assert isinstance(assert_type(await client.balance(), Balance), Balance)
        intent = assert_type(client.transfers.prepare(to="@ada", amount=1), TransferIntent)
        assert isinstance(assert_type(await client.transfers.send(intent), Transfer), Transfer)
        sent = assert_type(await client.transfers.send(to="@ada", amount="1"), Transfer)
        assert isinstance(sent, Transfer)
        transfers = assert_type(client.transfers.list(page_size=1), AsyncIterator[Transfer])
        assert isinstance(await anext(transfers), Transfer)


def test_a_call_shows_its_documentation(live: SeededServer) -> None:
    """`help` and `inspect` see the name, the words and the parameters of each call."""
    described = vars(Charges)["wait"]
    assert "paid, canceled or expired" in described.__doc__
    assert list(inspect.signature(Transfers.find).parameters) == [
        "self",
        "idempotency_key",
    ]
    with Client(live.key, base_url=live.base_url) as client:
        assert client.charges.cancel.__name__ == "cancel"
        assert "Cancel the charge" in (client.charges.cancel.__doc__ or "")
