"""A running server and its database, with partners and people."""

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
from tests.support import accounts
from tests.support.raw_http import exchange, request
from tests.support.server import Server


class PartnerClient(msgspec.Struct, frozen=True):
    """A partner, and an HTTP client that calls with its key."""

    account: Account
    app: App
    key: str
    client: httpx2.AsyncClient

    async def send(self, body: str | bytes, key: str | None = None) -> httpx2.Response:
        """Post exactly this text to /transfers, with the idempotency key if one is given."""
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        return await self.client.post("/transfers", content=body, headers=headers)


class World:
    """A running server and its database, which is open; each test creates its own accounts."""

    def __init__(self, server: Server, database: Database) -> None:
        self.server = server
        self.database = database
        self.url = server.database_url
        self.engine = server.engine

    @asynccontextmanager
    async def partner(self, funds: str | None = None, **app: Any) -> AsyncIterator[PartnerClient]:
        """Create an account with funds, an app and a key, and a client that uses the key."""
        kind = "test" if self.server.is_sandbox else "live"
        opened = await accounts.partner(self.database, accounts.unique_name(), funds, kind, **app)
        async with self.server.client(opened.key) as client:
            yield PartnerClient(*opened, client)

    @asynccontextmanager
    async def another_app(self, partner: PartnerClient) -> AsyncIterator[PartnerClient]:
        """Create another app and key for the partner's account, and a client that uses the key."""
        app, key = await accounts.app_with_key(self.database, partner.account)
        async with self.server.client(key) as client:
            yield PartnerClient(partner.account, app, key, client)

    async def get(self, target: str, key: str) -> httpx2.Response:
        """Send a GET whose target is exactly this text."""
        headers = [("Authorization", f"Bearer {key}")]
        return await exchange(self.server.port, request("GET", target, headers))

    async def person(self, funds: str | None = None) -> Account:
        """Open an account with a unique name."""
        return await accounts.person(self.database, accounts.unique_name(), funds)

    async def set_status(self, account: Account, status: Status) -> None:
        """Freeze or unfreeze an account, as the operator would."""
        identifier = account.account_number
        await self.database.write(lambda transaction: set_status(transaction, identifier, status))

    async def revoke(self, partner: PartnerClient, clock: Clock = system_clock) -> None:
        """Revoke the partner's key, at the time of this clock."""

        async def revoke(transaction: Transaction) -> None:
            key = await service.key_by_handle(transaction, handle_of(partner.key))
            await service.revoke_key(transaction, key, clock)

        await self.database.write(revoke)

    async def balance(self, account: Account) -> int:
        """Return the account's balance in millionths."""
        return await accounts.balance(self.database, account)
