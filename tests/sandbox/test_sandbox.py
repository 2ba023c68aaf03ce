"""The sandbox's endpoints: time, payers and money for tests, and none of it on a live server."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from ousel.app.ousel import Ousel
from ousel.charges.service import ChargeService
from ousel.database.port import Database
from ousel.kernel.clock import system_clock
from ousel.kernel.errors import DatabaseUnavailable
from ousel.kernel.settings import Settings
from ousel.sandbox.clock import REFRESH_SECONDS, SandboxClock
from tests.support.accounts import balance, verify
from tests.support.clock import ManualClock
from tests.support.in_process import InProcessTransport, in_process_client
from tests.support.server import Server
from tests.support.shop import Shop, open_shop
from tests.support.waiting import assert_none_ends

PATHS = ("/sandbox/clock", "/sandbox/charges/{id}/pay", "/sandbox/fund")


@pytest.fixture
async def shop(database: Database) -> Shop:
    """A shop of its own for each test."""
    return await open_shop(database, system_clock, kind="test")


@pytest.fixture
async def client(server: Server, shop: Shop) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the sandbox that calls with the shop's key."""
    async with server.client(shop.key) as calling:
        yield calling


async def created(client: httpx2.AsyncClient, amount: float = 2.5) -> dict[str, Any]:
    """Create a charge and return its record."""
    record: dict[str, Any] = (await client.post("/charges", json={"amount": amount})).json()
    return record


def code_of(answer: httpx2.Response) -> tuple[int, str, str | None]:
    """Return how an answer refuses."""
    problem = answer.json()
    return answer.status_code, problem["code"], problem.get("param")


async def test_money_is_issued_to_anyone(client: httpx2.AsyncClient, shop: Shop) -> None:
    """fund answers 201 with the transfer as its receiver sees it, and the books balance."""
    answer = await client.post(
        "/sandbox/fund", json={"to": f"@{shop.payer.username}", "amount": 12.34}
    )

    record = answer.json()
    assert answer.status_code == 201, answer.text
    assert (record["kind"], record["direction"]) == ("funding", "in")
    assert record["to"]["id"] == shop.payer.id
    assert '"amount":12.34,' in answer.text
    assert '"balance_after":112.34,' in answer.text
    assert await balance(shop.database, shop.payer) == 112_340_000
    await verify(shop.database)


async def test_what_cannot_be_funded_is_refused(client: httpx2.AsyncClient) -> None:
    """An unknown account, a wrong amount and an unknown field are named."""
    for body, told in (
        ({"to": "@nobody_at_all", "amount": 1}, (404, "account_not_found", "to")),
        ({"to": "@ousel", "amount": 0}, (400, "invalid_amount", "amount")),
        ({"to": "@ousel"}, (400, "missing_field", "amount")),
        ({"to": "@ousel", "amount": 1, "note": "x"}, (400, "unknown_field", "note")),
    ):
        assert code_of(await client.post("/sandbox/fund", json=body)) == told


async def test_a_charge_is_paid_as_a_payer_would(client: httpx2.AsyncClient, shop: Shop) -> None:
    """pay answers the paid charge; the money has moved from the payer to the partner."""
    charge = await created(client)
    path = f"/sandbox/charges/{charge['id']}/pay"

    answer = await client.post(path, json={"payer": f"{shop.payer.username}@example.com"})

    record = answer.json()
    assert (answer.status_code, record["status"]) == (200, "paid"), answer.text
    assert record["paid_by"]["id"] == shop.payer.id
    assert record == (await client.get(f"/charges/{charge['id']}")).json()
    assert await shop.balances() == (2_500_000, 97_500_000)
    again = await client.post(path, json={"payer": f"@{shop.payer.username}"})
    assert code_of(again) == (400, "charge_not_payable", None)
    assert again.json()["charge_status"] == "paid"


async def test_a_payment_whose_charge_cannot_be_read_again_is_in_doubt(
    database_url: str, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has been committed, so the answer must not say that nothing was written."""
    pay = ChargeService.pay

    async def pay_and_lose_the_database(charges: ChargeService, *arguments: Any) -> None:
        await pay(charges, *arguments)
        monkeypatch.setattr(ChargeService, "own_charge", fail)

    async def fail(*_: object) -> None:
        raise DatabaseUnavailable("The database is away.", retry_after_seconds=1)

    monkeypatch.setattr(ChargeService, "pay", pay_and_lose_the_database)
    async with in_process_client(database_url, sandbox=True) as client:
        client.headers["Authorization"] = f"Bearer {shop.key}"
        charge = await created(client)
        body = {"payer": f"@{shop.payer.username}"}
        answer = await client.post(f"/sandbox/charges/{charge['id']}/pay", json=body)

    assert code_of(answer) == (503, "outcome_unknown", None)
    assert await shop.balances() == (2_500_000, 97_500_000)


async def test_what_cannot_be_paid_is_refused(client: httpx2.AsyncClient, shop: Shop) -> None:
    """Each refusal of a payment has its code, and nothing moves."""
    other = await open_shop(shop.database, system_clock, kind="test")
    theirs = await other.charge()
    own, dear = await created(client), await created(client, 100.01)
    payer = f"@{shop.payer.username}"
    for charge_id, body, told in (
        (theirs.id, {"payer": payer}, (404, "charge_not_found", None)),
        ("x", {"payer": payer}, (404, "charge_not_found", None)),
        (own["id"], {"payer": "@nobody_at_all"}, (404, "account_not_found", "payer")),
        (own["id"], {"payer": f"@{shop.merchant.username}"}, (400, "own_charge", None)),
        (own["id"], {}, (400, "missing_field", "payer")),
        (own["id"], {"payer": payer, "amount": 1}, (400, "unknown_field", "amount")),
        (dear["id"], {"payer": payer}, (400, "insufficient_balance", "amount")),
    ):
        answer = await client.post(f"/sandbox/charges/{charge_id}/pay", json=body)
        assert code_of(answer) == told
    await client.post(f"/charges/{own['id']}/cancel")
    canceled = await client.post(f"/sandbox/charges/{own['id']}/pay", json={"payer": payer})

    assert code_of(canceled) == (400, "charge_not_payable", None)
    assert canceled.json()["charge_status"] == "canceled"
    assert await shop.balances() == (0, 100_000_000)


async def test_the_clock_advances_and_charges_expire(
    client: httpx2.AsyncClient, shop: Shop
) -> None:
    """A charge is open until its two hours have passed on the sandbox's clock, and then is not."""
    charge = await created(client)
    path = f"/charges/{charge['id']}"
    payer = {"payer": f"@{shop.payer.username}"}

    early = await client.post("/sandbox/clock", json={"advance": 7_000})
    still_open = await client.get(path)
    waiting = asyncio.create_task(client.get(path, headers={"Prefer": "wait=30"}))
    await assert_none_ends(waiting, seconds=0.2)
    late = await client.post("/sandbox/clock", json={"advance": 200})
    over = await asyncio.wait_for(waiting, 20)  # of the 30 that it would wait
    too_late = await client.post(f"/sandbox{path}/pay", json=payer)
    newer = await created(client)

    assert (early.status_code, early.json()["object"]) == (200, "clock")
    moved = datetime.fromisoformat(late.json()["now"]) - datetime.fromisoformat(early.json()["now"])
    assert timedelta(seconds=200) <= moved < timedelta(seconds=230)
    assert (still_open.json()["status"], over.json()["status"]) == ("created", "expired")
    assert code_of(too_late) == (400, "charge_not_payable", None)
    assert newer["created_at"] > charge["expires_at"]
    assert newer["status"] == "created"


async def test_the_clock_never_goes_back(client: httpx2.AsyncClient) -> None:
    """It moves on by whole seconds, at most a year at a time."""
    for advance in (-1, 31_622_401, 1.5, "60", None, True):
        answer = await client.post("/sandbox/clock", json={"advance": advance})
        assert code_of(answer) == (400, "invalid_field", "advance")
    assert code_of(await client.post("/sandbox/clock", json={})) == (
        400,
        "missing_field",
        "advance",
    )


async def test_every_process_follows_the_clock(database: Database) -> None:
    """The offset is kept with the data: other processes learn it, a later start begins with it."""
    here, there = SandboxClock(database, ManualClock(0)), SandboxClock(database, ManualClock(0))
    await here.refresh()
    before = here()
    await asyncio.gather(here.advance(3), there.advance(4))
    await asyncio.gather(here.refresh(), there.refresh())
    later = SandboxClock(database, ManualClock(0))
    await later.refresh()

    assert here() == there() == later() == before + 7_000_000


@pytest.mark.parametrize(("processes", "pauses"), [(1, 0), (2, 1)])
async def test_the_clock_has_advanced_everywhere_when_the_call_returns(
    database: Database, monkeypatch: pytest.MonkeyPatch, processes: int, pauses: int
) -> None:
    """Only a sandbox with several processes waits, longer than they need to read the offset."""
    here = SandboxClock(database, ManualClock(0), processes)
    others = [SandboxClock(database, ManualClock(0)) for _ in range(processes - 1)]
    waited: list[float] = []

    async def pause(seconds: float) -> None:
        waited.append(seconds)
        await asyncio.gather(*(other.refresh() for other in others))

    with monkeypatch.context() as patch:
        patch.setattr("ousel.sandbox.clock.asyncio", SimpleNamespace(sleep=pause))
        await here.advance(7_200)
        await here.wait_for_others()

    assert len(waited) == pauses
    assert all(seconds > REFRESH_SECONDS for seconds in waited)
    assert [other() for other in others] == [here()] * len(others)


async def test_the_sandbox_describes_its_endpoints(client: httpx2.AsyncClient) -> None:
    """The OpenAPI document of a sandbox has them."""
    paths = (await client.get("/openapi.json")).json()["paths"]

    assert set(PATHS) <= set(paths)


@pytest.mark.slow
async def test_a_live_server_has_no_sandbox_endpoints() -> None:
    """On a live server the paths are not there, whatever the key, nor in its description."""
    live = Ousel(Settings(database_url="never-opened.db"))
    headers = {"Authorization": "Bearer sk_test_key"}
    async with httpx2.AsyncClient(
        transport=InProcessTransport(live), base_url="http://live/v1", headers=headers
    ) as client:
        answers = [
            await client.post(path.replace("{id}", f"ch_{'0' * 26}"), json={"advance": 1})
            for path in PATHS
        ]
        answers.append(await client.get("/sandbox/mail"))
        refused = await client.get("/charges")

    assert {code_of(answer) for answer in answers} == {(404, "not_found", None)}
    assert not [path for path in live.openapi["paths"] if "sandbox" in path]
    assert code_of(refused) == (401, "unauthorized", None)
