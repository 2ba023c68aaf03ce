"""Databases with a partner who has money and a key, and with people whom the partner can pay."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from ousel.database.addresses import open_database
from ousel.ledger.rules import Account
from ousel.partners.rules import App
from tests.support.accounts import partner, person
from tests.support.raw_sql import RawSql
from tests.support.server import Server

FUNDS = "100000000"
PEOPLE = ("ada", "grace", "edsger", "barbara", "alan")
REDIRECT_URI = "https://shop.example/return"


class StoredTransfer(msgspec.Struct, frozen=True):
    """A transfer of the partner, as it is stored in the ledger."""

    idempotency_key: str
    id: str
    amount: int
    note: str | None


class SeededDatabase(msgspec.Struct, frozen=True):
    """A database, its partner, and the usernames of the people."""

    url: str
    account: Account
    app: App
    key: str
    people: tuple[str, ...] = PEOPLE

    async def transfers(self) -> list[StoredTransfer]:
        """Return the transfers that the partner sent, by their idempotency keys."""
        async with RawSql(self.url) as raw_sql:
            rows = await raw_sql.run(
                "SELECT idempotency_key, transfer_id, -amount, note FROM entries"
                " WHERE account_id = ? AND kind = 'transfer' ORDER BY idempotency_key",
                self.account.id,
            )
        return [StoredTransfer(*row) for row in rows]


class SeededServer(SeededDatabase, frozen=True, kw_only=True):
    """A seeded database and a server that runs on it."""

    server: Server

    @property
    def base_url(self) -> str:
        """The base URL of the server's API."""
        return self.server.base_url


async def seed_database(url: str, kind: str = "live") -> SeededDatabase:
    """Open the accounts on a fresh database; the partner's key is of this kind."""
    async with open_database(url) as database:
        opened = await partner(database, "harbour", FUNDS, kind, redirect_uris=[REDIRECT_URI])
        for name in PEOPLE:
            await person(database, name)
        return SeededDatabase(url, *opened)


def seed_server(server: Server) -> SeededServer:
    """Open the accounts on the database of a running server."""
    kind = "test" if server.is_sandbox else "live"
    seeded = asyncio.run(seed_database(server.database_url, kind))
    return SeededServer(**msgspec.structs.asdict(seeded), server=server)


@contextmanager
def run_seeded_server(url: str, *options: str, **environment: str) -> Iterator[SeededServer]:
    """Run a server on a fresh database with a partner and people."""
    with Server(url, *options, **environment) as server:
        yield seed_server(server)
