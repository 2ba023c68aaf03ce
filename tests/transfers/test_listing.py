"""GET /transfers: newest first, page by page, nothing skipped and nothing twice."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from tests.support.world import PartnerClient, World

PAGES_MAX = 1_000


async def test_an_empty_list_is_a_list(world: World) -> None:
    """Without any transfer: no data, no more, no cursor."""
    async with world.partner() as caller:
        answer = await caller.client.get("/transfers")

    assert answer.text == '{"object":"list","data":[],"has_more":false,"next_cursor":null}'


async def test_a_page_has_20_records_unless_a_limit_says_otherwise(world: World) -> None:
    """`has_more` and `next_cursor` say together whether the list goes on."""
    async with world.partner("100") as caller:
        await _sent(world, caller, 24)
        pages = {
            limit: (await caller.client.get("/transfers", params=_limit(limit))).json()
            for limit in (None, 1, 24, 25, 26, 100)
        }

    counts = {limit: len(page["data"]) for limit, page in pages.items()}
    assert counts == {None: 20, 1: 1, 24: 24, 25: 25, 26: 25, 100: 25}
    for limit, page in pages.items():
        more = counts[limit] < 25
        assert list(page) == ["object", "data", "has_more", "next_cursor"]
        assert page["object"] == "list"
        assert page["has_more"] is more
        assert (page["next_cursor"] is not None) is more
        notes = [record["note"] for record in page["data"] if record["kind"] == "transfer"]
        assert notes == sorted(notes, key=int, reverse=True)


async def test_filters_narrow_the_list(world: World) -> None:
    """By direction, kind and time, alone and together, and page by page as well."""
    async with world.partner("100") as caller, world.partner("100") as other:
        for number in range(3):
            to_other = {"to": f"@{other.account.username}", "amount": 1, "note": f"out-{number}"}
            to_caller = {"to": f"@{caller.account.username}", "amount": 1, "note": f"in-{number}"}
            await caller.client.post("/transfers", json=to_other)
            await other.client.post("/transfers", json=to_caller)
        everything = (await caller.client.get("/transfers")).json()["data"]
        middle = everything[2]["created_at"]
        found = {
            query: await _notes(caller, query)
            for query in (
                "direction=in",
                "direction=out",
                "kind=funding",
                "kind=transfer&direction=in",
                "kind=charge_payment",
                f"created_after={middle}",
                f"created_before={middle}",
                f"created_after={middle}&created_before={middle}",
                f"created_after={middle}&direction=in",
            )
        }
        walked = [record["note"] async for record in _walk(caller, "direction=out&limit=1")]

    assert [record["note"] for record in everything] == [
        *("in-2", "out-2", "in-1", "out-1", "in-0", "out-0", None)
    ]
    assert list(found.values()) == [
        ["in-2", "in-1", "in-0", None],
        ["out-2", "out-1", "out-0"],
        [None],
        ["in-2", "in-1", "in-0"],
        [],
        ["in-2", "out-2"],
        ["out-1", "in-0", "out-0", None],
        [],
        ["in-2"],
    ]
    assert walked == ["out-2", "out-1", "out-0"]


async def test_a_list_is_the_readers_own(world: World) -> None:
    """A cursor of one account opens no other account's list."""
    async with world.partner("100") as one, world.partner("100") as other:
        await _sent(world, one, 3)
        first = (await one.client.get("/transfers?limit=1")).json()
        foreign = await other.client.get("/transfers", params={"cursor": first["next_cursor"]})

    records = foreign.json()["data"]
    assert [record["to"]["id"] for record in records] == [other.account.id]


async def test_a_walk_neither_skips_nor_repeats_while_others_write(world: World) -> None:
    """All that was there at the start is met once, in order, whatever is written meanwhile."""
    async with world.partner("1000") as caller, world.partner("1000") as other:
        await _sent(world, caller, 60)
        stopped = asyncio.Event()
        writers = [
            asyncio.create_task(_write_until(stopped, caller, other)),
            asyncio.create_task(_write_until(stopped, other, caller)),
        ]
        walked = [record async for record in _walk(caller, "limit=7")]
        stopped.set()
        written = sum(await asyncio.gather(*writers))
        again = [record["id"] async for record in _walk(caller, "limit=100")]

    old = [record for record in walked if (record["note"] or "").isdigit()]
    assert [int(record["note"]) for record in old] == list(reversed(range(60)))
    assert len({record["id"] for record in walked}) == len(walked)
    assert walked[-1]["kind"] == "funding"
    assert len(again) == len(set(again)) == 61 + written
    positions = {transfer_id: place for place, transfer_id in enumerate(again)}
    order = [positions[record["id"]] for record in walked]
    assert order == sorted(order)
    assert written > 0


async def _sent(world: World, caller: PartnerClient, count: int) -> None:
    """Send so many transfers, noted 0, 1, 2 and so on."""
    ada = await world.person()
    for number in range(count):
        body = {"to": f"@{ada.username}", "amount": 0.01, "note": str(number)}
        assert (await caller.client.post("/transfers", json=body)).status_code == 201


async def _notes(caller: PartnerClient, query: str) -> list[str | None]:
    answer = await caller.client.get(f"/transfers?{query}")
    assert answer.status_code == 200, answer.text
    return [record["note"] for record in answer.json()["data"]]


async def _walk(caller: PartnerClient, query: str) -> AsyncIterator[dict[str, Any]]:
    page = (await caller.client.get(f"/transfers?{query}")).json()
    for _ in range(PAGES_MAX):
        for record in page["data"]:
            yield record
        if not page["has_more"]:
            return
        page = (await caller.client.get(f"/transfers?{query}&cursor={page['next_cursor']}")).json()
    raise AssertionError("the walk does not end")


async def _write_until(
    stopped: asyncio.Event, sender: PartnerClient, recipient: PartnerClient
) -> int:
    written = 0
    while not stopped.is_set():
        body = {"to": f"@{recipient.account.username}", "amount": 0.01, "note": "meanwhile"}
        assert (await sender.client.post("/transfers", json=body)).status_code == 201
        written += 1
    return written


def _limit(limit: int | None) -> dict[str, int]:
    return {} if limit is None else {"limit": limit}
