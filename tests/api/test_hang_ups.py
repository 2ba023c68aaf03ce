"""A client that hangs up: its reads and waits end, and nothing is written that had not begun."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ousel.app.ousel import Ousel
from ousel.charges.rules import ChargeQuery, ChargeTerms
from ousel.http.connection import Connection, OwnServerState
from ousel.http.messages import Request
from ousel.kernel.settings import Settings
from tests.support.engines import Engine
from tests.support.raw_sql import RawSql
from tests.support.seeded import SeededDatabase, seed_database
from tests.support.shop import until_waiters
from tests.support.waiting import until, until_blocked, until_next_iteration, until_unblocked

HOLD_WRITES: dict[Engine, list[str]] = {
    "sqlite": ["BEGIN IMMEDIATE"],
    "postgresql": ["BEGIN", "LOCK TABLE accounts IN EXCLUSIVE MODE"],
    "citus": ["BEGIN", "LOCK TABLE accounts IN EXCLUSIVE MODE"],
}
HOLD_CHARGES: dict[Engine, list[str]] = {
    "sqlite": ["BEGIN IMMEDIATE"],
    "postgresql": ["BEGIN", "LOCK TABLE charges IN EXCLUSIVE MODE"],
    "citus": ["BEGIN", "LOCK TABLE charges IN EXCLUSIVE MODE"],
}


class ListeningService:
    """The service inside the test's process, behind a socket."""

    def __init__(self, ousel: Ousel, seeded: SeededDatabase) -> None:
        self.services = ousel.services
        self.seeded = seeded
        self.state = OwnServerState()
        self._ousel = ousel
        self.give_up = ousel.give_up

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Listen for the length of a block."""
        listener = await asyncio.get_running_loop().create_server(
            lambda: Connection(self._ousel, self.state, 75), "127.0.0.1", 0
        )
        self._port = listener.sockets[0].getsockname()[1]
        yield
        listener.close()

    async def send(self, start: str, body: str = "", **headers: str) -> asyncio.StreamWriter:
        """Send a request with the partner's key, and return the open connection."""
        _, writer = await asyncio.open_connection("127.0.0.1", self._port)
        fields = {
            "Host": "ousel",
            "Authorization": f"Bearer {self.seeded.key}",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        writer.write(f"{start} HTTP/1.1\r\n{lines}\r\n{body}".encode())
        return writer

    async def transfer(self, key: str) -> asyncio.StreamWriter:
        """Send a transfer with this idempotency key."""
        return await self.send(
            "POST /v1/transfers", '{"to": "@ada", "amount": 1}', Idempotency_Key=key
        )

    async def hang_up(self, *clients: asyncio.StreamWriter) -> None:
        """Close these connections, and wait until the server has noticed."""
        for client in clients:
            client.close()
        await until(lambda: not self.state.connections and not self.state.tasks)

    def hang_ups(self, path: str = "") -> int:
        """Return how many requests, of this path or all, were counted as given up."""
        routes = self.services.telemetry._metrics.requests.routes.items()  # noqa: SLF001
        return sum(route.statuses.get(499, 0) for key, route in routes if not path or path in key)


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[ListeningService]:
    """The service on a fresh database with a partner."""
    seeded = await seed_database(database_url)
    ousel = Ousel(Settings(database_url=database_url, rate_limit=None))
    listening = ListeningService(ousel, seeded)
    async with ousel.running(), listening.listening():
        yield listening


async def test_a_posting_that_has_not_begun_to_commit_is_not_written(
    service: ListeningService, engine: Engine, raw_sql: RawSql
) -> None:
    """Whether it waits for its turn or for a lock, nothing is written once its client hangs up."""
    queue = service.services.posting_queue
    for statement in HOLD_WRITES[engine]:
        await raw_sql.run(statement)
    abandoned = [await service.transfer("first")]
    await until(lambda: queue._writer.is_running and not queue.waiting_count)  # noqa: SLF001
    abandoned += [await service.transfer(f"queued-{number}") for number in range(100)]
    await until(lambda: queue.waiting_count == len(abandoned) - 1)

    for client in abandoned:
        client.close()
    await until_next_iteration(lambda: not service.state.connections)
    left = [each for each in queue._writer._queue if not each.answer.done()]  # noqa: SLF001
    await raw_sql.run("ROLLBACK")
    await service.hang_up()
    await queue.close()

    assert left == []

    assert await service.seeded.transfers() == []
    assert service.hang_ups() == len(abandoned)


async def test_a_charge_whose_client_hangs_up_is_neither_created_nor_canceled(
    service: ListeningService, engine: Engine, raw_sql: RawSql, database_url: str
) -> None:
    """As long as the database keeps them waiting, their commit has not begun."""
    charges, seeded = service.services.charges, service.seeded
    existing = await charges.create(seeded.account.id, seeded.app.id, ChargeTerms(amount=1), None)
    for statement in HOLD_CHARGES[engine]:
        await raw_sql.run(statement)
    abandoned = [
        await service.send("POST /v1/charges", '{"amount": 2}'),
        await service.send(f"POST /v1/charges/{existing.charge.id}/cancel"),
    ]
    creations = charges._creations  # noqa: SLF001
    await until(lambda: creations.is_running and not creations.waiting_count)
    if engine != "sqlite":
        await until_blocked(database_url, times=len(abandoned))
    for client in abandoned:
        client.close()
    await until(lambda: not service.state.connections)
    await raw_sql.run("ROLLBACK")
    await service.hang_up()
    await creations.close()

    listed = await charges.list_charges(
        ChargeQuery(account_id=seeded.account.id, app_id=seeded.app.id, limit=10)
    )
    assert [(charge.id, charge.status) for charge in listed] == [(existing.charge.id, "created")]


async def test_a_request_that_was_not_begun_is_counted(service: ListeningService) -> None:
    """Its client has hung up before its turn."""
    request = Request(
        method="GET", path="/v1/balance", query=b"", headers={}, body=b"", ip_address="192.0.2.1"
    )
    request.arrived_at = asyncio.get_running_loop().time()

    service.give_up(request)

    assert service.hang_ups("/v1/balance") == 1


async def test_a_wait_ends(service: ListeningService) -> None:
    """The wait is gone from the process as soon as the client is."""
    charges, seeded = service.services.charges, service.seeded
    terms = ChargeTerms(amount=1)
    charge = (await charges.create(seeded.account.id, seeded.app.id, terms, None)).charge
    waits = [
        await service.send(f"GET {path}", Prefer="wait=60")
        for path in (f"/v1/charges/{charge.id}", f"/pay/{charge.id}/status")
    ]
    await until_waiters(charges.notifier, len(waits))

    await service.hang_up(*waits)

    await until_waiters(charges.notifier, 0)
    assert service.hang_ups() == len(waits)


@pytest.mark.parametrize("engine", ["postgresql"])
async def test_a_search_is_canceled_in_the_database(
    service: ListeningService, raw_sql: RawSql
) -> None:
    """PostgreSQL stops the query of a client that hangs up; on SQLite no query takes that long."""
    await raw_sql.run("BEGIN")
    await raw_sql.run("LOCK TABLE entries IN ACCESS EXCLUSIVE MODE")
    client = await service.send("GET /v1/transfers?direction=in")
    await until_blocked(service.seeded.url)

    await service.hang_up(client)

    await until_unblocked(service.seeded.url)
    await raw_sql.run("ROLLBACK")
    assert service.hang_ups() == 1
