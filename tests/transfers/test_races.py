"""Many at once: one key moves once, and no balance is spent twice.

On PostgreSQL the requests are spread over two server processes.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest

from tests.support.accounts import verify
from tests.support.engines import ENGINES
from tests.support.server import Server, SharedServers
from tests.support.world import World


@pytest.fixture(scope="module")
def second(shared_servers: SharedServers) -> Iterator[Server]:
    """A second process on the PostgreSQL database."""
    with Server(shared_servers.on(ENGINES[-1]).database_url) as running:
        yield running


@pytest.fixture
def servers(shared_server: Server, request: pytest.FixtureRequest) -> list[Server]:
    """All processes that serve the database: one on SQLite, two on PostgreSQL."""
    if shared_server.engine == "sqlite":
        return [shared_server]
    return [shared_server, request.getfixturevalue("second")]


async def test_one_key_many_times_at_once_moves_once(world: World, servers: list[Server]) -> None:
    """80 concurrent posts with one key: one 201 and 79 replays of it, never an error."""
    ada = await world.person()
    body = {"to": f"@{ada.username}", "amount": 1}

    async with world.partner("100") as sender, _clients(servers, sender.key) as clients:
        answers = await asyncio.gather(
            *(
                clients[number % len(clients)].post(
                    "/transfers", json=body, headers={"Idempotency-Key": "only-once"}
                )
                for number in range(80)
            )
        )

    assert Counter(answer.status_code for answer in answers) == {201: 1, 200: 79}
    assert len({answer.text for answer in answers}) == 1
    replays = [answer for answer in answers if answer.status_code == 200]
    assert all(answer.headers["Idempotent-Replayed"] == "true" for answer in replays)
    assert await world.balance(ada) == 1_000_000
    assert await world.balance(sender.account) == 99_000_000


async def test_a_balance_is_never_spent_twice(world: World, servers: list[Server]) -> None:
    """60 concurrent posts of 1 from a balance of 10: ten move, fifty are refused."""
    ada = await world.person()

    async with world.partner("10") as sender, _clients(servers, sender.key) as clients:
        answers = await asyncio.gather(
            *(
                clients[number % len(clients)].post(
                    "/transfers", json={"to": f"@{ada.username}", "amount": 1}
                )
                for number in range(60)
            )
        )

    outcomes = Counter((answer.status_code, answer.json().get("code")) for answer in answers)
    assert outcomes == {(201, None): 10, (400, "insufficient_balance"): 50}
    moved = [answer.json() for answer in answers if answer.status_code == 201]
    assert sorted(record["balance_after"] for record in moved) == list(range(10))
    assert await world.balance(sender.account) == 0
    assert await world.balance(ada) == 10_000_000
    await verify(world.database)


async def test_different_requests_with_one_key_at_once_move_one_of_them(
    world: World, servers: list[Server]
) -> None:
    """Of 40 different posts with one key one moves money; the others' answers name it."""
    ada = await world.person()

    async with world.partner("1000") as sender, _clients(servers, sender.key) as clients:
        answers = await asyncio.gather(
            *(
                clients[number % len(clients)].post(
                    "/transfers",
                    json={"to": f"@{ada.username}", "amount": 1 + number},
                    headers={"Idempotency-Key": "one-of-many"},
                )
                for number in range(40)
            )
        )

    assert Counter(answer.status_code for answer in answers) == {201: 1, 409: 39}
    (winner,) = (answer.json() for answer in answers if answer.status_code == 201)
    named = {answer.json()["transfer_id"] for answer in answers if answer.status_code == 409}
    assert named == {winner["id"]}
    assert await world.balance(ada) == round(winner["amount"] * 1_000_000)


async def test_money_sent_back_and_forth_at_once_is_never_lost(
    world: World, servers: list[Server]
) -> None:
    """Two accounts that pay each other at the same time end with what they had together."""
    async with (
        world.partner("50") as one,
        world.partner("50") as other,
        _clients(servers, one.key) as ones,
        _clients(servers, other.key) as others,
    ):
        answers = await asyncio.gather(
            *(
                client.post("/transfers", json={"to": f"@{to}", "amount": 1})
                for number in range(40)
                for client, to in (
                    (ones[number % len(ones)], other.account.username),
                    (others[number % len(others)], one.account.username),
                )
            )
        )

    assert {answer.status_code for answer in answers} == {201}
    assert await world.balance(one.account) == 50_000_000
    assert await world.balance(other.account) == 50_000_000
    await verify(world.database)


@contextlib.asynccontextmanager
async def _clients(servers: list[Server], key: str) -> AsyncIterator[list[httpx2.AsyncClient]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(server.client(key)) for server in servers]
