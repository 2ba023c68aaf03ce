"""POST /charges stores exactly what was requested, once, or names the invalid field."""

import asyncio
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest

from ousel.charges.rules import Charge, ChargeQuery, ChargeTerms
from ousel.charges.service import ChargeService
from ousel.charges.transitions import CreatedCharge, create_charges, new_charge
from ousel.database.addresses import open_database
from ousel.database.port import Transaction
from ousel.kernel.clock import system_clock
from ousel.ledger.queue import PostingQueue
from ousel.ledger.refusals import IdempotencyConflict, QueueFull
from tests.support.controlled_database import ControlledDatabase
from tests.support.server import Server
from tests.support.shop import Shop, open_shop
from tests.support.waiting import until_blocked

REQUEST = {
    "amount": 25,
    "currency": "OUSD",
    "description": "Two tickets 🎟",
    "reference": "order-1",
    "success_url": "https://shop.example/thanks?order=1#top",
    "cancel_url": "http://localhost:3000/basket",
}
LONG_URL = "https://shop.example/" + "x" * 1_979
FAULTS: list[tuple[dict[str, Any], str, str]] = [
    ({"amount": ...}, "missing_field", "amount"),
    ({"amount": "25"}, "invalid_amount", "amount"),
    ({"amount": True}, "invalid_amount", "amount"),
    ({"amount": None}, "invalid_amount", "amount"),
    ({"amount": 0}, "invalid_amount", "amount"),
    ({"amount": -1}, "invalid_amount", "amount"),
    ({"amount": 0.0000001}, "invalid_amount", "amount"),
    ({"amount": 1_000_000_000}, "invalid_amount", "amount"),
    ({"currency": "EUR"}, "invalid_field", "currency"),
    ({"currency": "ousd"}, "invalid_field", "currency"),
    ({"currency": None}, "invalid_field", "currency"),
    ({"description": "x" * 501}, "invalid_field", "description"),
    ({"description": "bell\x07"}, "invalid_field", "description"),
    ({"description": "nothing\x00"}, "invalid_field", "description"),
    ({"description": 5}, "invalid_field", "description"),
    ({"reference": "x" * 201}, "invalid_field", "reference"),
    ({"reference": "\x00"}, "invalid_field", "reference"),
    ({"success_url": "http://shop.example/"}, "invalid_field", "success_url"),
    ({"success_url": "ftp://shop.example/"}, "invalid_field", "success_url"),
    ({"success_url": "javascript:alert(1)"}, "invalid_field", "success_url"),
    ({"success_url": "//shop.example/"}, "invalid_field", "success_url"),
    ({"success_url": "/thanks"}, "invalid_field", "success_url"),
    ({"success_url": ""}, "invalid_field", "success_url"),
    ({"success_url": "https://"}, "invalid_field", "success_url"),
    ({"success_url": "https://shop.example:99999/"}, "invalid_field", "success_url"),
    ({"success_url": "https://ada@shop.example/"}, "invalid_field", "success_url"),
    ({"success_url": "https://shop.example/\r\nSet-Cookie: x"}, "invalid_field", "success_url"),
    ({"success_url": "http://localhost.example/"}, "invalid_field", "success_url"),
    ({"success_url": LONG_URL + "x"}, "invalid_field", "success_url"),
    ({"cancel_url": "http://shop.example/"}, "invalid_field", "cancel_url"),
    ({"cancel_url": 7}, "invalid_field", "cancel_url"),
    ({"referense": "order-1"}, "unknown_field", "referense"),
    ({"idempotency_key": "in-the-body"}, "unknown_field", "idempotency_key"),
    ({"status": "paid"}, "unknown_field", "status"),
]


async def test_a_charge_answers_its_record(server: Server, shop: Shop) -> None:
    """A new charge answers 201 with every field of the record, and expires in two hours."""
    async with server.client(shop.key) as client:
        answer = await client.post("/charges", json=REQUEST)
        read = await client.get(f"/charges/{answer.json()['id']}")

    assert answer.status_code == 201, answer.text
    record = answer.json()
    created_at, expires_at = record.pop("created_at"), record.pop("expires_at")
    assert '"amount":25.00,' in answer.text
    assert record == REQUEST | {
        "object": "charge",
        "id": record["id"],
        "status": "created",
        "checkout_url": f"{server.origin}/pay/{record['id']}",
        "paid_at": None,
        "canceled_at": None,
        "paid_by": None,
        "transfer_id": None,
    }
    assert record["id"].startswith("ch_")
    lifetime = datetime.fromisoformat(expires_at) - datetime.fromisoformat(created_at)
    assert lifetime == timedelta(hours=2)
    assert read.json() == answer.json()


async def test_only_the_amount_is_required(server: Server, shop: Shop) -> None:
    """Without other fields the currency is OUSD and the rest is null."""
    async with server.client(shop.key) as client:
        record = (await client.post("/charges", json={"amount": 0.000001})).json()

    assert record["currency"] == "OUSD"
    optional = ("description", "reference", "success_url", "cancel_url")
    assert [record[name] for name in optional] == [None] * 4


async def test_an_invalid_field_is_named(server: Server, shop: Shop) -> None:
    """The answer is a 400 with a code and the name of the field, and nothing is created."""
    async with server.client(shop.key) as client:
        for changes, code, param in FAULTS:
            values = REQUEST | changes
            request = {name: value for name, value in values.items() if value is not ...}
            answer = await client.post("/charges", json=request)
            problem = answer.json()
            found = (answer.status_code, problem.get("code"), problem.get("param"))
            assert found == (400, code, param), changes
        listed = await client.get("/charges")

    assert listed.json()["data"] == []


@pytest.mark.parametrize(
    "changes",
    [
        {"description": "🎟" * 500, "reference": "é" * 200},
        {"description": "two\nlines\tand a tab", "reference": ""},
        {"success_url": LONG_URL, "cancel_url": "https://[2001:db8::1]:8443/"},
        {"success_url": "http://127.0.0.1:8000/a", "cancel_url": "http://[::1]/b"},
        {"amount": 999999999.999999},
    ],
)
async def test_values_at_their_limits_are_stored_unchanged(
    server: Server, shop: Shop, changes: dict[str, Any]
) -> None:
    """They are accepted, and read back as they were sent."""
    async with server.client(shop.key) as client:
        answer = await client.post("/charges", json={"amount": 1} | changes)
        read = await client.get(f"/charges/{answer.json()['id']}")

    assert answer.status_code == 201, answer.text
    assert {name: read.json()[name] for name in changes} == changes


async def test_an_unknown_key_is_refused(server: Server) -> None:
    """Without a valid key, charges can be neither created nor listed."""
    async with server.client("sk_live_wrong") as client:
        answers = [await client.post("/charges", json=REQUEST), await client.get("/charges")]

    assert [answer.json()["code"] for answer in answers] == ["unauthorized"] * 2


async def test_a_replayed_key_answers_the_first_charge_as_it_is_now(
    server: Server, shop: Shop
) -> None:
    """Equal values are the same request: 200 and the same charge with its current status."""
    keyed = {"Idempotency-Key": "k-1"}
    async with server.client(shop.key) as client:
        first = await client.post("/charges", json={"amount": 25}, headers=keyed)
        same = '{"amount": 25.00, "currency": "OUSD", "description": null}'
        again = await client.post(
            "/charges", content=same, headers=keyed | {"Content-Type": "application/json"}
        )
        await client.post(f"/charges/{first.json()['id']}/cancel")
        later = await client.post("/charges", json={"amount": 25}, headers=keyed)
        listed = await client.get("/charges")

    assert (first.status_code, again.status_code, later.status_code) == (201, 200, 200)
    assert "Idempotent-Replayed" not in first.headers
    assert again.headers["Idempotent-Replayed"] == later.headers["Idempotent-Replayed"] == "true"
    assert again.json() == first.json()
    assert (later.json()["id"], later.json()["status"]) == (first.json()["id"], "canceled")
    assert len(listed.json()["data"]) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"amount": 25.000001},
        {"description": "Other tickets"},
        {"reference": None},
        {"success_url": None},
        {"cancel_url": "https://shop.example/"},
    ],
)
async def test_a_key_with_another_request_is_a_conflict(
    server: Server, shop: Shop, changes: dict[str, Any]
) -> None:
    """One value differs: 409 that names the first charge, and nothing is created."""
    keyed = {"Idempotency-Key": "k-1"}
    async with server.client(shop.key) as client:
        first = await client.post("/charges", json=REQUEST, headers=keyed)
        other = await client.post("/charges", json=REQUEST | changes, headers=keyed)
        listed = await client.get("/charges")

    problem = other.json()
    assert (other.status_code, problem["code"]) == (409, "idempotency_conflict")
    assert problem["charge_id"] == first.json()["id"]
    assert first.json()["id"] in problem["detail"]
    assert len(listed.json()["data"]) == 1


async def test_a_malformed_idempotency_key_is_refused(server: Server, shop: Shop) -> None:
    """A key is 1 to 255 visible ASCII characters."""
    async with server.client(shop.key) as client:
        for key in (b"", b"a b", b"x" * 256, "é".encode()):
            answer = await client.post("/charges", json=REQUEST, headers={b"Idempotency-Key": key})
            problem = answer.json()
            assert (answer.status_code, problem["code"]) == (400, "invalid_field"), key
            assert problem["param"] == "idempotency_key"


async def test_a_refused_request_leaves_its_key_free(server: Server, shop: Shop) -> None:
    """A key is used up only if a charge was created."""
    keyed = {"Idempotency-Key": "k-1"}
    async with server.client(shop.key) as client:
        refused = await client.post("/charges", json={"amount": 0}, headers=keyed)
        taken = await client.post("/charges", json={"amount": 1}, headers=keyed)

    assert (refused.status_code, taken.status_code) == (400, 201)


async def test_one_key_many_times_at_once_creates_once(server: Server, shop: Shop) -> None:
    """50 concurrent posts with one key: one 201, 49 replays of it, one charge."""
    keyed = {"Idempotency-Key": "only-once"}
    async with server.client(shop.key) as client:
        answers = await asyncio.gather(
            *(client.post("/charges", json=REQUEST, headers=keyed) for _ in range(50))
        )
        listed = await client.get("/charges")

    assert Counter(answer.status_code for answer in answers) == {201: 1, 200: 49}
    assert {answer.json()["id"] for answer in answers} == {listed.json()["data"][0]["id"]}
    assert len(listed.json()["data"]) == 1


async def test_concurrent_creations_respect_idempotency_keys(shop: Shop) -> None:
    """The first request of a key counts; equal terms replay it, other terms are a conflict."""
    one, other = ChargeTerms(amount=1_000_000), ChargeTerms(amount=2_000_000)
    requests = [(one, None), (one, "k"), (other, "k"), (one, "k"), (other, "l"), (one, None)]

    created = await asyncio.gather(
        *(
            shop.charges.create(shop.merchant.id, shop.app.id, terms, key)
            for terms, key in requests
        ),
        return_exceptions=True,
    )

    results = [
        (each.charge.terms, each.replayed) if isinstance(each, CreatedCharge) else type(each)
        for each in created
    ]
    new, again = (one, False), (one, True)
    assert results == [new, new, IdempotencyConflict, again, (other, False), new]
    listed = await shop.charges.list_charges(ChargeQuery(account_id=shop.merchant.id, limit=10))
    assert len(listed) == 4


async def test_the_queue_of_creations_is_limited(shop: Shop) -> None:
    """When the queue is full, a request is refused at once and writes nothing."""
    controlled = ControlledDatabase(shop.database)
    posting_queue = PostingQueue(controlled, shop.clock, queue_limit=2)
    charges = ChargeService(controlled, posting_queue, shop.clock)

    async def create() -> CreatedCharge:
        return await charges.create(
            shop.merchant.id, shop.app.id, ChargeTerms(amount=1_000_000), None
        )

    controlled.hold()
    under_way = asyncio.create_task(create())
    await controlled.write_started.wait()
    waiting = [asyncio.create_task(create()) for _ in range(2)]
    await asyncio.sleep(0)  # lets the tasks start
    with pytest.raises(QueueFull) as refused:
        await asyncio.wait_for(create(), 30)
    controlled.release()
    await asyncio.gather(under_way, *waiting)
    await create()

    assert refused.value.retry_after_seconds
    assert (
        len(await shop.charges.list_charges(ChargeQuery(account_id=shop.merchant.id, limit=10)))
        == 4
    )


async def test_keys_are_inserted_in_one_order(postgres_url: str) -> None:
    """Of two processes with the same keys, one waits for the other; neither has to retry."""
    async with open_database(postgres_url) as database:
        shop = await open_shop(database, system_clock)
        attempts = 0
        begun = asyncio.Event()

        def charge_with(key: str) -> Charge:
            terms = ChargeTerms(amount=1_000_000)
            return new_charge(shop.merchant.id, shop.app.id, terms, key, system_clock)

        async def one_by_one(transaction: Transaction) -> None:
            nonlocal attempts
            attempts += 1
            await create_charges(transaction, [charge_with("a")])
            begun.set()
            await until_blocked(postgres_url)
            await create_charges(transaction, [charge_with("b")])

        async def together(transaction: Transaction) -> None:
            nonlocal attempts
            attempts += 1
            await create_charges(transaction, [charge_with("b"), charge_with("a")])

        first = asyncio.create_task(database.write(one_by_one))
        await begun.wait()
        await asyncio.gather(first, database.write(together))

    assert attempts == 2
