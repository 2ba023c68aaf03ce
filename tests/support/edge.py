"""A server that many tests share: each test brings partners and people of its own."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import msgspec

from ousel.accounts.service import set_status
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import Clock, system_clock
from ousel.kernel.ids import handle_of
from ousel.ledger.rules import Account, Status
from ousel.partners import service
from ousel.partners.rules import App
from tests.support import books
from tests.support.engines import Engine
from tests.support.servers import Server
from tests.support.wire import exchange, request


class Caller(msgspec.Struct, frozen=True):
    """A partner with a key, and a client that calls with it."""

    account: Account
    app: App
    key: str
    client: httpx2.AsyncClient

    async def send(self, body: str | bytes, key: str | None = None) -> httpx2.Response:
        """Post this very text to /transfers, with the key in the header where one is given."""
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        return await self.client.post("/transfers", content=body, headers=headers)


class Edge:
    """A running server and the open database below it."""

    def __init__(self, server: Server, database: Database, url: str, engine: Engine) -> None:
        self.server = server
        self.database = database
        self.url = url
        self.engine = engine

    @asynccontextmanager
    async def partner(self, funds: str | None = None, **app: Any) -> AsyncIterator[Caller]:
        """Open an account of its own with funds, an app and a live key; call as it."""
        account, created, key = await books.partner(self.database, unique(), funds, **app)
        async with self.server.client(key) as client:
            yield Caller(account, created, key, client)

    @asynccontextmanager
    async def another_app(self, caller: Caller) -> AsyncIterator[Caller]:
        """Give the caller's account one more app with a key; call as that."""
        app, key = await books.another_app(self.database, caller.account)
        async with self.server.client(key) as client:
            yield Caller(caller.account, app, key, client)

    async def get(self, target: str, key: str) -> httpx2.Response:
        """Get a target that goes on the wire as it is written here."""
        headers = [("Authorization", f"Bearer {key}")]
        return await exchange(self.server.port, request("GET", target, headers))

    async def person(self, funds: str | None = None) -> Account:
        """Open an account of its own."""
        return await books.person(self.database, unique(), funds)

    async def set_status(self, account: Account, status: Status) -> None:
        """Freeze or unfreeze an account, as the operator would."""
        identifier = account.account_number
        await self.database.write(lambda transaction: set_status(transaction, identifier, status))

    async def revoke(self, caller: Caller, clock: Clock = system_clock) -> None:
        """Let the caller's key end, by this clock."""

        async def revoked(transaction: Transaction) -> None:
            key = await service.key_by_handle(transaction, handle_of(caller.key))
            await service.revoke_key(transaction, key, clock)

        await self.database.write(revoked)

    async def balance(self, account: Account) -> int:
        """Return an account's balance in millionths, from the database."""
        return await books.balance(self.database, account)


def unique(prefix: str = "u") -> str:
    """Return a username that no other test has."""
    return f"{prefix}_{secrets.token_hex(8)}"
