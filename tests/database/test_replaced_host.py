"""A host that was replaced may answer for a moment longer: its answers do not count."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import msgspec
import pytest

from ousel.database.port import Transaction
from ousel.database.postgres import PostgresDatabase
from tests.database.sample_rows import add_row, committed_rows, fetch_rows
from tests.support.postgres_proxy import PostgresProxy
from tests.support.postgres_server import PostgresServer
from tests.support.raw_sql import RawSql

pytestmark = pytest.mark.slow


class Hosts(msgspec.Struct):
    """A primary, a follower that can take over, and a database that is open on both hosts."""

    old: str
    new: str
    follower: PostgresServer
    database: PostgresDatabase


@pytest.fixture
def servers() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """Two servers, each with a database of the same name."""
    with PostgresServer() as primary, PostgresServer() as follower:
        yield primary, follower


@pytest.fixture
async def hosts(servers: tuple[PostgresServer, PostgresServer]) -> AsyncIterator[Hosts]:
    """Both accept connections, and only the first one writes."""
    urls = [await _with_row(server, name) for server, name in zip(servers, ("a", "b"), strict=True)]
    servers[1].restart_as_follower()
    async with PostgresProxy(urls[0]) as old, PostgresProxy(urls[1]) as new:
        address = new.url.partition("@")[2].partition("/")[0]
        database = PostgresDatabase(old.url.replace("/ousel", f",{address}/ousel"))
        await database.open()
        yield Hosts(urls[0], urls[1], servers[1], database)
        await database.close()


async def _with_row(server: PostgresServer, name: str) -> str:
    await server.execute("CREATE DATABASE ousel")
    url = server.url("ousel")
    async with RawSql(url) as raw_sql:
        await raw_sql.run("CREATE TABLE deployment (name text PRIMARY KEY, value text)")
        await raw_sql.run("INSERT INTO deployment VALUES ($1, '')", name)
    return url


@pytest.fixture
def _trust_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ousel.database.primary.TRUST_SECONDS", 0.0)
    monkeypatch.setattr("ousel.database.primary.ASK_SECONDS_MAX", 60.0)  # on a busy machine


@pytest.mark.usefixtures("_trust_ends_at_once")
@pytest.mark.parametrize("reads", [PostgresDatabase.read, PostgresDatabase.snapshot])
async def test_what_a_replaced_host_reads_does_not_count(
    hosts: Hosts, reads: Callable[..., Awaitable[dict[str, str]]]
) -> None:
    """The work is repeated on the host that has taken over."""
    assert await reads(hosts.database, fetch_rows) == {"a": ""}

    await hosts.follower.promote()

    assert await reads(hosts.database, fetch_rows) == {"b": ""}


@pytest.mark.usefixtures("_trust_ends_at_once")
async def test_a_replaced_host_writes_nothing(hosts: Hosts) -> None:
    """Although it would commit: in this test it needs no follower for that."""
    await hosts.database.write(lambda transaction: add_row(transaction, "before"))

    await hosts.follower.promote()
    await hosts.database.write(lambda transaction: add_row(transaction, "after"))

    assert await _rows(hosts.old) == ["a", "before"]
    assert await _rows(hosts.new) == ["after", "b"]


async def test_the_first_answer_of_a_replaced_host_does_not_count(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that has just connected asks all hosts before it trusts one."""
    monkeypatch.setattr("ousel.database.primary.FIRST_ASK_SECONDS_MAX", 60.0)  # on a busy machine
    await hosts.follower.promote()

    assert await hosts.database.read(fetch_rows) == {"b": ""}


@pytest.mark.usefixtures("_trust_ends_at_once")
async def test_a_refusal_by_a_replaced_host_does_not_count(hosts: Hosts) -> None:
    """What the new host has is found, although the old one, which is asked first, refuses."""
    await committed_rows(hosts.database)
    await hosts.follower.promote()
    asked = []

    async def value_of_b(transaction: Transaction) -> str:
        rows = await fetch_rows(transaction)
        asked.append(sorted(rows))
        return rows["b"]

    assert await hosts.database.read(value_of_b) == ""
    assert asked == [["a"], ["b"]]


async def _rows(url: str) -> list[str]:
    async with RawSql(url) as raw_sql:
        return [name for (name,) in await raw_sql.run("SELECT name FROM deployment ORDER BY name")]
