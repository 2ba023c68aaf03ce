"""Servers with somebody in them: a partner with a key and money, and people to pay."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from ousel.partners.rules import App
from tests.support.accounts import open_database, partner, person
from tests.support.engines import Engine, Engines
from tests.support.servers import Server

FUNDS = "1000000"
PEOPLE = ("ada", "grace", "edsger", "barbara", "alan")
REDIRECT_URI = "https://shop.example/return"


class House(msgspec.Struct, frozen=True):
    """A server process, the partner on it, and the database below it."""

    server: Server
    database_url: str
    app: App
    key: str

    @property
    def base_url(self) -> str:
        """Where the server is called."""
        return self.server.base_url


@contextmanager
def furnished(database_url: str, *options: str, **environment: str) -> Iterator[House]:
    """Run a server on this database for the length of a block."""
    kind = "test" if "--sandbox" in options else "live"
    app, key = asyncio.run(_moved_in(database_url, kind))
    with Server(database_url, *options, **environment) as server:
        yield House(server, database_url, app, key)


class Street:
    """Houses by engine and options, each furnished when it is first entered."""

    def __init__(self, engines: Engines, folder: Path, stack: ExitStack) -> None:
        self._engines = engines
        self._folder = folder
        self._stack = stack
        self._houses: dict[tuple[str, ...], House] = {}

    def house(self, engine: Engine, *options: str) -> House:
        """Return the house with these options, whose server is running."""
        number = (engine, *options)
        if number not in self._houses:
            database_url = self._engines.fresh_url(engine, self._folder)
            self._houses[number] = self._stack.enter_context(furnished(database_url, *options))
        return self._houses[number]


async def _moved_in(database_url: str, kind: str) -> tuple[App, str]:
    async with open_database(database_url) as database:
        _, app, key = await partner(database, "harbour", FUNDS, kind, redirect_uris=[REDIRECT_URI])
        for name in PEOPLE:
            await person(database, name)
        return app, key
