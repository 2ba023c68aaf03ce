"""The header Ousel-Rehearse: one call goes wrong as its caller asks, in a sandbox only."""

from collections.abc import AsyncIterator
from time import monotonic

import httpx2
import pytest

from ousel.database.port import Database
from ousel.kernel.clock import system_clock
from tests.support.server import Server
from tests.support.shop import Shop, open_shop
from tests.support.world import World

pytestmark = pytest.mark.one_engine

TRANSFER_KEY = {"Idempotency-Key": "payout-1"}


@pytest.fixture
async def shop(database: Database) -> Shop:
    """A shop of its own for each test."""
    return await open_shop(database, system_clock, kind="test")


@pytest.fixture
async def client(server: Server, shop: Shop) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the sandbox that calls with the key of the shop, which has 5 OUSD."""
    async with server.client(shop.key) as calling:
        await calling.post("/sandbox/fund", json={"to": shop.merchant.account_number, "amount": 5})
        yield calling


async def send(client: httpx2.AsyncClient, shop: Shop, rehearse: str | None) -> httpx2.Response:
    """Send 1 OUSD to the payer, with the same key each time."""
    headers = TRANSFER_KEY | ({} if rehearse is None else {"Ousel-Rehearse": rehearse})
    body = {"to": f"@{shop.payer.username}", "amount": 1}
    return await client.post("/transfers", json=body, headers=headers)


@pytest.mark.parametrize(
    ("rehearse", "status_of_retry"), [("drop-after-commit", 200), ("drop-before-commit", 201)]
)
async def test_an_answer_is_lost_after_the_commit_or_before_anything_is_written(
    client: httpx2.AsyncClient, shop: Shop, rehearse: str, status_of_retry: int
) -> None:
    """The connection is closed without an answer; a retry with the same key moves money once."""
    with pytest.raises(httpx2.RemoteProtocolError):
        await send(client, shop, rehearse)

    retried = await send(client, shop, None)

    assert retried.status_code == status_of_retry
    assert (await client.get("/balance")).json()["available"] == 4


async def test_a_refused_call_loses_its_answer_too(client: httpx2.AsyncClient) -> None:
    """A caller cannot tell from a lost answer whether the call was refused."""
    with pytest.raises(httpx2.RemoteProtocolError):
        await client.get("/charges/ch_none", headers={"Ousel-Rehearse": "drop-after-commit"})


@pytest.mark.parametrize(
    ("rehearse", "status", "code", "retry_after"),
    [
        ("unavailable", 503, "database_unavailable", None),
        ("unavailable; retry-after=2", 503, "database_unavailable", "2"),
        ("unavailable;retry-after=60", 503, "database_unavailable", "60"),
        ("rate-limited", 429, "rate_limited", "1"),
        ("key-revoked", 401, "unauthorized", None),
    ],
)
async def test_a_call_is_refused_and_nothing_is_written(
    client: httpx2.AsyncClient,
    shop: Shop,
    rehearse: str,
    status: int,
    code: str,
    retry_after: str | None,
) -> None:
    """The answer is the one that a live server would give; the next call works again."""
    refused = await send(client, shop, rehearse)

    assert (refused.status_code, refused.json()["code"]) == (status, code)
    assert refused.headers.get("retry-after") == retry_after
    assert (await send(client, shop, None)).status_code == 201


async def test_oauth_refuses_a_revoked_key_in_its_own_form(client: httpx2.AsyncClient) -> None:
    """A library for OAuth reads the error that a really revoked key gets."""
    headers = {"Ousel-Rehearse": "key-revoked"}
    refused = await client.post("/oauth/token", data={"code": "any"}, headers=headers)

    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    assert refused.headers["www-authenticate"].startswith("Basic")


@pytest.mark.slow
async def test_a_slow_answer_comes_after_its_seconds(
    client: httpx2.AsyncClient, shop: Shop
) -> None:
    """The money moves, and the answer says so in the end."""
    began = monotonic()
    answer = await send(client, shop, "slow; seconds=1")

    assert answer.status_code == 201
    assert monotonic() - began >= 1


@pytest.mark.slow
async def test_a_refusal_is_slow_too(client: httpx2.AsyncClient) -> None:
    """A client must also bear to wait for a refusal."""
    began = monotonic()
    answer = await client.get("/charges/ch_none", headers={"Ousel-Rehearse": "slow; seconds=1"})

    assert answer.status_code == 404
    assert monotonic() - began >= 1


@pytest.mark.parametrize(
    "rehearse",
    [
        "",
        "drop",
        "Unavailable",
        "slow",
        "slow; seconds=0",
        "slow; seconds=61",
        "slow; retry-after=1",
        "unavailable; seconds=1",
        "unavailable; retry-after=",
        "rate-limited; retry-after=1",
        "unavailable, slow; seconds=1",
    ],
)
async def test_an_unknown_value_is_refused(
    client: httpx2.AsyncClient, shop: Shop, rehearse: str
) -> None:
    """Nothing is written, so a misspelt rehearsal cannot pass for a successful one."""
    refused = await send(client, shop, rehearse)

    assert (refused.status_code, refused.json()["code"]) == (400, "unknown_rehearsal")
    assert (await client.get("/balance")).json()["available"] == 5


@pytest.mark.parametrize("rehearse", ["unavailable", "unknown"])
async def test_a_live_server_does_not_rehearse(world: World, rehearse: str) -> None:
    """The header is refused whatever its value is, and nothing is written."""
    async with world.partner("5") as partner:
        refused = await partner.client.post(
            "/transfers",
            json={"to": "@nobody", "amount": 1},
            headers={"Ousel-Rehearse": rehearse},
        )

    assert (refused.status_code, refused.json()["code"]) == (400, "sandbox_only")


@pytest.mark.parametrize("rehearse", ["unavailable", "unknown"])
async def test_the_caller_is_authenticated_first(server: Server, rehearse: str) -> None:
    """Without a valid key, a rehearsal gets the usual 401."""
    async with server.client("sk_test_wrong") as stranger:
        refused = await stranger.get("/me", headers={"Ousel-Rehearse": rehearse})

    assert refused.status_code == 401


async def test_an_unknown_value_is_refused_in_the_form_of_its_endpoint(server: Server) -> None:
    """OAuth has a form of its own for errors."""
    async with server.client() as client:
        answer = await client.post("/oauth/token", json={}, headers={"Ousel-Rehearse": "unknown"})

    assert answer.status_code == 400
    assert answer.json()["error"] == "invalid_request"
