"""A server with an admin port, and what it says there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import msgspec
from prometheus_client.parser import text_string_to_metric_families

from tests.support.accounts import open_database, partner, unique_name
from tests.support.servers import Server


class Scraped:
    """The metrics of one moment."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples = [each for family in self.families.values() for each in family.samples]

    def value(self, name: str, **labels: str) -> float:
        """The sum of the samples with this name that have these labels; none is 0."""
        return sum(
            sample.value
            for sample in self.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    @property
    def names(self) -> set[str]:
        """The names of all samples, as a query writes them."""
        return {sample.name for sample in self.samples}


class Post(msgspec.Struct, frozen=True):
    """A running sandbox server, its database and its admin port."""

    server: Server
    database_url: str
    admin: str

    def get(self, path: str, method: str = "GET") -> httpx2.Response:
        """Ask the admin port."""
        return httpx2.request(method, f"{self.admin}{path}", verify=False)

    def scrape(self) -> Scraped:
        """Return the metrics as they are now."""
        answer = self.get("/metrics")
        assert answer.status_code == 200
        return Scraped(answer.text)

    @asynccontextmanager
    async def partner(self, funds: str = "100") -> AsyncIterator[httpx2.AsyncClient]:
        """Call as a partner with funds of its own."""
        async with open_database(self.database_url) as database:
            _, _, key = await partner(database, unique_name(), funds, kind="test")
        async with self.server.client(key) as client:
            yield client

    async def person(self) -> str:
        """Return the identifier of somebody new."""
        async with self.partner() as client:
            return f"@{(await client.get('/me')).json()['username']}"
