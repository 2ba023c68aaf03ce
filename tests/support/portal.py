"""The whole service inside the test's process, with people who visit it and a manual clock."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from ousel.accounts.service import find_account
from ousel.app.ousel import Ousel
from ousel.kernel.clock import MICROS_PER_SECOND
from ousel.kernel.money import micros_from_json
from ousel.kernel.settings import Settings
from ousel.ledger.funding import fund_account
from ousel.ledger.rules import Account
from ousel.people.rules import CODE_STEP_SECONDS, one_time_code
from tests.support.clock import ManualClock
from tests.support.in_process import InProcessTransport
from tests.support.secret_files import secret_file_for
from tests.support.visitor import FIREFOX, Visitor, secret_of


class Portal:
    """The service, its clock, and the people who visit it."""

    def __init__(self, ousel: Ousel, clock: ManualClock) -> None:
        self.clock = clock
        self.settings = ousel.settings
        self.database = ousel.database
        self.charges = ousel.services.charges
        self.charge_watch = self.charges.notifier
        self.outbox = ousel.services.outbox
        self.log = ousel.services.log
        self._ousel = ousel
        self._clients: list[httpx2.AsyncClient] = []

    def visitor(self, address: str = "192.0.2.1", device: str = FIREFOX) -> Visitor:
        """Return a new visitor with this IP address and this browser."""
        return Visitor(self._client(address, {"User-Agent": device, "Accept": "text/html"}))

    async def person(self, username: str, /, address: str = "192.0.2.1", **fields: str) -> Visitor:
        """Return a visitor who has just signed up."""
        visitor = self.visitor(address)
        answer = await visitor.sign_up(username, **fields)
        assert answer.status_code == 303, answer.text
        return visitor

    async def fund(self, username: str, amount: str) -> Account:
        """Let money arrive from the operator, and return the account."""
        account = await self.database.read(
            lambda transaction: find_account(transaction, f"@{username}", param="to")
        )
        await fund_account(self.database, self.clock, account, micros_from_json(amount.encode()))
        return account

    async def call(self, path: str, key: str, **headers: str) -> httpx2.Response:
        """Call the API with a partner's key."""
        client = self._client("192.0.2.200", {"Authorization": f"Bearer {key}"})
        return await client.get(f"{self.settings.base_path}{path}", headers=headers)

    async def mail(self, email: str) -> list[str]:
        """Return the texts of the messages to an address, newest first."""
        return [each.text for each in await self.outbox.newest(email)]

    def code(self, secret: str, steps_ahead: int = 0) -> str:
        """Return the code for this secret now, or that many 30-second steps later."""
        step = self.clock() // MICROS_PER_SECOND // CODE_STEP_SECONDS
        return one_time_code(secret, step + steps_ahead)

    async def turn_on_factor(self, visitor: Visitor) -> tuple[str, list[str]]:
        """Turn two-factor sign-in on; return its secret and the recovery codes."""
        page = (await visitor.get("/settings/two-factor")).text
        secret = secret_of(page, "factor-secret")
        done = await visitor.press("/settings/two-factor", "Turn on", code=self.code(secret))
        assert done.status_code == 200, done.text
        codes = done.text.partition("<code>")[2].partition("</code>")[0].split()
        self.clock.advance(seconds=CODE_STEP_SECONDS)  # each code works only once
        return secret, codes

    def _client(self, address: str, headers: dict[str, str]) -> httpx2.AsyncClient:
        transport = InProcessTransport(self._ousel, address)
        client = httpx2.AsyncClient(
            transport=transport, base_url=self.settings.portal_url, headers=headers
        )
        self._clients.append(client)
        return client

    async def close(self) -> None:
        """Close all clients."""
        for client in self._clients:
            await client.aclose()


@asynccontextmanager
async def open_portal(database_url: str, **settings: Any) -> AsyncIterator[Portal]:
    """Run the service on this database until the block ends."""
    clock = ManualClock()
    addresses = {"portal_url": "http://ousel.test", "base_url": "http://ousel.test/v1"}
    chosen = addresses | {"secret_file": secret_file_for(database_url)} | settings
    ousel = Ousel(Settings(database_url=database_url, **chosen), clock)
    async with ousel.running():
        portal = Portal(ousel, clock)
        try:
            yield portal
        finally:
            await portal.close()
