"""GET /charges and GET /charges/:id: the caller's charges as they are now, newest first."""

from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2
import pytest

from ousel.charges.lifecycle import LIFETIME_MICROS
from ousel.database.port import Database
from ousel.kernel.clock import system_clock, timestamp
from tests.support.clock import ManualClock
from tests.support.raw_sql import RawSql
from tests.support.server import Server
from tests.support.shop import Shop, in_another_process, open_shop


async def create_charge(client: httpx2.AsyncClient, **terms: Any) -> str:
    """Create a charge and return its id."""
    answer = await client.post("/charges", json={"amount": 1} | terms)
    assert answer.status_code == 201, answer.text
    charge_id: str = answer.json()["id"]
    return charge_id


async def listed_ids(client: httpx2.AsyncClient, **query: Any) -> list[str]:
    """Read all pages of the list and return the ids."""
    ids: list[str] = []
    while True:
        answer = await client.get("/charges", params=query)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        assert set(page) == {"object", "data", "has_more", "next_cursor"}
        assert page["object"] == "list"
        assert page["has_more"] == (page["next_cursor"] is not None)
        assert len(page["data"]) <= int(query.get("limit", 20))
        ids += [charge["id"] for charge in page["data"]]
        if not page["has_more"]:
            return ids
        query["cursor"] = page["next_cursor"]


async def test_another_partners_charge_is_not_found(server: Server, shop: Shop) -> None:
    """Other partners' ids, unknown ids and malformed ids all answer 404 charge_not_found."""
    other = await open_shop(shop.database, shop.clock)
    theirs = await other.charge()
    async with server.client(shop.key) as client:
        answers = [
            await client.request(method, f"/charges/{charge_id}{action}")
            for charge_id in (theirs.id, "ch_00000000000000000000000000", "x", "%00", "%F0%9F")
            for method, action in (("GET", ""), ("POST", "/cancel"))
        ]
        assert await listed_ids(client) == []

    problems = {(each.status_code, each.json()["code"]) for each in answers[:8]}
    assert problems == {(404, "charge_not_found")}
    assert {each.status_code for each in answers[8:]} == {404}
    assert await other.status(theirs) == "created"


async def test_an_entity_tag_spares_the_body(server: Server, shop: Shop) -> None:
    """If-None-Match with the current tag answers 304 until the charge changes."""
    async with server.client(shop.key) as client:
        path = f"/charges/{await create_charge(client)}"
        first = await client.get(path)
        tag = first.headers["ETag"]
        for matching in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            same = await client.get(path, headers={"If-None-Match": matching})
            assert (same.status_code, same.content, same.headers["ETag"]) == (304, b"", tag)
            assert "Content-Length" not in same.headers
            assert "Content-Type" not in same.headers
        for other in ('"other"', tag.strip('"'), ""):
            assert (await client.get(path, headers={"If-None-Match": other})).status_code == 200
        await client.post(f"{path}/cancel")
        changed = await client.get(path, headers={"If-None-Match": tag})

    assert changed.status_code == 200
    assert changed.json()["status"] == "canceled"
    assert changed.headers["ETag"] != tag


async def test_a_canceled_charge_shows_when(server: Server, shop: Shop) -> None:
    """Canceling answers 200 with the charge; canceling again is refused with its status."""
    async with server.client(shop.key) as client:
        charge_id = await create_charge(client)
        canceled = await client.post(f"/charges/{charge_id}/cancel")
        again = await client.post(f"/charges/{charge_id}/cancel")
        read = await client.get(f"/charges/{charge_id}")

    record = canceled.json()
    assert (canceled.status_code, record["status"]) == (200, "canceled")
    assert record["created_at"] < record["canceled_at"] < record["expires_at"]
    problem = again.json()
    assert (again.status_code, problem["status"], problem["code"]) == (
        400,
        400,
        "charge_not_cancelable",
    )
    assert (problem["charge_id"], problem["charge_status"]) == (charge_id, "canceled")
    assert read.json() == record


async def test_the_list_is_newest_first_while_charges_are_created(
    server: Server, shop: Shop
) -> None:
    """Pages of two give each charge once and in order, though more are created meanwhile."""
    async with server.client(shop.key) as client:
        ids = [await create_charge(client) for _ in range(7)]
        newest_first = ids[::-1]
        page = (await client.get("/charges", params={"limit": 3})).json()
        await create_charge(client)
        rest = await listed_ids(client, limit=2, cursor=page["next_cursor"])

        assert [each["id"] for each in page["data"]] + rest == newest_first
        assert (await listed_ids(client))[1:] == newest_first
        assert (await listed_ids(client, limit=1))[1:] == newest_first


async def test_the_list_can_be_oldest_first(server: Server, shop: Shop) -> None:
    """Pages of two give each charge once, in the order of creation, until the list ends."""
    charges = [await shop.charge() for _ in range(3)]
    shop.clock.advance(micros=1)
    charges += [await shop.charge() for _ in range(2)]
    expected = [each.id for each in sorted(charges, key=lambda each: (each.created_at, each.id))]
    async with server.client(shop.key) as client:
        assert await listed_ids(client, order="oldest") == expected
        assert await listed_ids(client, order="oldest", limit=2) == expected
        assert await listed_ids(client, order="newest", limit=2) == expected[::-1]


async def test_charges_are_listed_by_the_time_of_their_outcome(server: Server, shop: Shop) -> None:
    """A charge that nobody has read since it expired is listed too, with its time expires_at."""
    live = in_another_process(shop, system_clock)
    paid, canceled, open_charge = [await live.charge() for _ in range(3)]
    await live.pay(paid)
    await live.charges.cancel(shop.merchant.id, canceled.id)
    old = in_another_process(shop, ManualClock(system_clock() - LIFETIME_MICROS - 5_000_000))
    expired = await old.charge()  # five seconds ago
    async with server.client(shop.key) as client:
        record = (await client.get(f"/charges/{canceled.id}")).json()
        before_all = timestamp(expired.expires_at - 1)
        found = {
            "all": await listed_ids(client, order="oldest", status_changed_after=before_all),
            "newest first": await listed_ids(client, status_changed_after=before_all, limit=1),
            "after its expiry": await listed_ids(
                client, status_changed_after=timestamp(expired.expires_at)
            ),
            "after the cancellation": await listed_ids(
                client, status_changed_after=record["canceled_at"]
            ),
            "expired": await listed_ids(client, status_changed_after=before_all, status="expired"),
            "open": await listed_ids(client, status_changed_after=before_all, status="created"),
        }

    assert await shop.status(open_charge) == "created"
    assert found == {
        "all": [expired.id, paid.id, canceled.id],
        "newest first": [canceled.id, paid.id, expired.id],
        "after its expiry": [canceled.id, paid.id],
        "after the cancellation": [],
        "expired": [expired.id],
        "open": [],
    }


async def test_the_next_list_has_what_changed_behind_the_cursor(server: Server, shop: Shop) -> None:
    """It begins a minute before the first request of this list, by the Date of the answer."""
    live = in_another_process(shop, system_clock)
    early, *others = [await live.charge() for _ in range(3)]
    for charge in others:
        await live.charges.cancel(shop.merchant.id, charge.id)
    query: dict[str, Any] = {
        "order": "oldest",
        "status_changed_after": timestamp(early.created_at),
        "limit": 1,
    }
    async with server.client(shop.key) as client:
        first = await client.get("/charges", params=query)
        await live.charges.cancel(shop.merchant.id, early.id)
        rest = await listed_ids(client, **query, cursor=first.json()["next_cursor"])
        begin = parsedate_to_datetime(first.headers["Date"]) - timedelta(minutes=1)
        next_ids = await listed_ids(client, order="oldest", status_changed_after=begin.isoformat())

    assert [each["id"] for each in first.json()["data"]] + rest == [each.id for each in others]
    assert early.id in next_ids


async def test_charges_of_one_microsecond_are_neither_skipped_nor_repeated(
    server: Server, shop: Shop
) -> None:
    """Charges with the same created_at are in the order of their ids."""
    charges = [await shop.charge() for _ in range(5)]
    async with server.client(shop.key) as client:
        walked = await listed_ids(client, limit=2)

    assert {charge.created_at for charge in charges} == {shop.clock()}
    assert walked == sorted((charge.id for charge in charges), reverse=True)


async def test_the_list_can_be_filtered(
    server: Server, database: Database, raw_sql: RawSql
) -> None:
    """The status filter uses the status now, even if an expiry is not stored yet."""
    shop = await open_shop(database, system_clock)
    overdue = [await shop.charge(reference="old") for _ in range(3)]
    paid_once = await shop.charge(reference="old")
    await shop.pay(paid_once)
    await raw_sql.run(
        "UPDATE charges SET created_at = created_at - ?, expires_at = expires_at - ?,"
        " paid_at = paid_at - ? WHERE account_id = ?",
        *(2 * LIFETIME_MICROS,) * 3,
        shop.merchant.id,
    )
    canceled = await shop.charge(reference="new")
    await shop.charges.cancel(shop.merchant.id, canceled.id)
    paid = await shop.charge(reference="new")
    await shop.pay(paid)
    live = await shop.charge(reference="new")
    assert await shop.status(overdue[1]) == "expired"
    newest_first = sorted(overdue, key=lambda each: (each.created_at, each.id), reverse=True)
    expired = [charge.id for charge in newest_first]

    async with server.client(shop.key) as client:
        assert await listed_ids(client, status="created") == [live.id]
        assert await listed_ids(client, status="paid") == [paid.id, paid_once.id]
        assert await listed_ids(client, status="canceled") == [canceled.id]
        assert await listed_ids(client, status="expired", limit=1) == expired
        assert await listed_ids(client, status="expired") == expired
        assert await listed_ids(client, reference="new") == [live.id, paid.id, canceled.id]
        assert await listed_ids(client, reference="new", status="paid") == [paid.id]
        assert await listed_ids(client, reference="old", status="expired", limit=2) == expired
        assert await listed_ids(client, reference="old", status="created") == []
        assert await listed_ids(client, reference="ne") == []
        records = (await client.get("/charges", params={"status": "expired"})).json()["data"]
        assert {record["status"] for record in records} == {"expired"}


async def test_a_paid_charge_names_the_payer(server: Server, shop: Shop) -> None:
    """The record and the list show who paid, when and with which transfer."""
    charge = await shop.charge()
    paid = await shop.pay(charge)
    async with server.client(shop.key) as client:
        record = (await client.get(f"/charges/{charge.id}")).json()
        page = (await client.get("/charges", params={"status": "paid"})).json()

    assert page["data"] == [record]
    assert (record["status"], record["transfer_id"]) == ("paid", paid.transfer_id)
    assert record["paid_at"] == record["created_at"]
    assert record["paid_by"] == {
        "id": shop.payer.id,
        "username": shop.payer.username,
        "display_name": shop.payer.display_name,
    }


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("query", "code", "param"),
    [
        ({"status": "pending"}, "invalid_field", "status"),
        ({"status": ""}, "invalid_field", "status"),
        ({"limit": 0}, "invalid_field", "limit"),
        ({"limit": 101}, "invalid_field", "limit"),
        ({"limit": "ten"}, "invalid_field", "limit"),
        ({"order": "up"}, "invalid_field", "order"),
        ({"status_changed_after": "yesterday"}, "invalid_field", "status_changed_after"),
        ({"status_changed_after": "2026-01-01T00:00:00"}, "invalid_field", "status_changed_after"),
        ({"cursor": "abc"}, "invalid_field", "cursor"),
        ({"cursor": "YWZ0ZXI6MTI"}, "invalid_field", "cursor"),
        ({"reference": "x" * 201}, "invalid_field", "reference"),
        ({"reference": "\x00"}, "invalid_field", "reference"),
        ({"created_after": "2026-01-01T00:00:00Z"}, "unknown_parameter", "created_after"),
    ],
)
async def test_an_unknown_filter_is_refused(
    server: Server, shop: Shop, query: dict[str, Any], code: str, param: str
) -> None:
    """An unknown parameter or value answers 400 and is named."""
    async with server.client(shop.key) as client:
        answer = await client.get("/charges", params=query)

    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["param"]) == (400, code, param)
