"""A sandbox inside the test's process, with a partner and a clock that the test moves."""

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import msgspec
import pytest

from ousel.database.port import Database
from ousel.ledger.rules import Account
from ousel.partners.rules import App
from tests.lab.clients import GoodClient
from tests.support.accounts import partner, person
from tests.support.clock import ManualClock
from tests.support.in_process import in_process_client

REDIRECT_URI = "https://shop.example/connected"


class Lab(msgspec.Struct):
    """A sandbox, and a partner that rehearses there."""

    http: httpx2.AsyncClient  # calls with the partner's key
    clock: ManualClock
    account: Account
    app: App
    key: str

    def client(self, kind: type[GoodClient]) -> GoodClient:
        """Return a client that calls with the partner's key."""
        return kind(self.http, self.clock, "@ada")

    async def start(self, rehearsal: str) -> Any:
        """Start a rehearsal, and return its record."""
        started = await self.http.post("/sandbox/lab", json={"rehearsal": rehearsal})
        assert started.status_code == 200, started.text
        return started.json()

    async def finish(self, rehearsal: Any) -> Any:
        """End a rehearsal, and return its record."""
        return (await self.http.post(f"/sandbox/lab/{rehearsal['id']}/finish")).json()

    async def get(self, rehearsal: Any) -> Any:
        """Return the record of a rehearsal as it is now."""
        return (await self.http.get(f"/sandbox/lab/{rehearsal['id']}")).json()


@pytest.fixture
async def lab(database_url: str, database: Database, clock: ManualClock) -> AsyncIterator[Lab]:
    """A sandbox with a partner that has 100 OUSD, and with Ada, whom it pays."""
    opened = await partner(
        database, "shop", "100", "test", redirect_uris=[REDIRECT_URI], origins=[]
    )
    await person(database, "ada")
    clock.advance(seconds=1)  # after what the system's clock has dated
    async with in_process_client(database_url, clock, sandbox=True) as http:
        http.headers["Authorization"] = f"Bearer {opened.key}"
        yield Lab(http, clock, opened.account, opened.app, opened.key)
