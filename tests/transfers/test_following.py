"""GET /transfers?order=oldest: what happened, in its order, without an end."""

import asyncio
from typing import Any

from tests.support.problems import assert_problem
from tests.support.world import PartnerClient, World

WAIT = {"Prefer": "wait=60"}


async def test_the_cursor_of_the_last_page_goes_on(world: World) -> None:
    """It is never null, not even of an account without transfers, and a page ends nothing."""
    async with world.partner() as caller, world.partner("5") as payer:
        empty = (await caller.client.get("/transfers?order=oldest")).json()
        assert empty["data"] == []
        assert empty["has_more"] is False
        cursor, followed = empty["next_cursor"], []
        for number in range(1, 6):
            await _pay(payer, caller)
            await _pay(payer, caller)
            page = await _page(caller, cursor, limit=1)
            assert page["has_more"] is True
            rest = await _page(caller, page["next_cursor"], limit=100)
            assert rest["has_more"] is False
            followed += [*page["data"], *rest["data"]]
            assert len(followed) == 2 * number
            cursor = rest["next_cursor"]
        again = await _page(caller, cursor, limit=1)
        newest = (await caller.client.get("/transfers?limit=100")).json()["data"]

    assert [record["sequence"] for record in followed] == list(range(1, 11))
    assert followed == newest[::-1]
    assert (again["data"], again["has_more"], again["next_cursor"]) == ([], False, cursor)


async def test_a_sequence_is_a_cursor_too(world: World) -> None:
    """A partner may store the number of the last transfer that it has handled instead."""
    async with world.partner("5") as caller, world.partner() as other:
        for _ in range(3):
            await _pay(caller, other)
        found = {
            number: [each["sequence"] for each in (await _page(caller, number, 100))["data"]]
            for number in ("0", "1", "3", "4")
        }

    assert found == {"0": [1, 2, 3, 4], "1": [2, 3, 4], "3": [4], "4": []}


async def test_newest_is_the_default_order(world: World) -> None:
    """A list without an order is the same as before."""
    async with world.partner("5") as caller, world.partner() as other:
        await _pay(caller, other)
        default = await caller.client.get("/transfers")
        newest = await caller.client.get("/transfers?order=newest")

    assert default.json() == newest.json()
    assert [record["sequence"] for record in newest.json()["data"]] == [2, 1]


async def test_filters_and_times_apply_to_the_oldest_first_as_well(world: World) -> None:
    """The cursor passes what does not match, so that nothing is read twice."""
    async with world.partner("5") as caller, world.partner("5") as other:
        for _ in range(2):
            await _pay(caller, other)
            await _pay(other, caller)
        query = "/transfers?order=oldest"
        sent = (await caller.client.get(f"{query}&direction=out")).json()
        moment = sent["data"][1]["created_at"]
        since = (await caller.client.get(f"{query}&created_after={moment}")).json()
        key = (await caller.client.get(f"{query}&idempotency_key=none")).json()

    assert [record["sequence"] for record in sent["data"]] == [2, 4]
    assert [record["sequence"] for record in since["data"]] == [5]
    assert key["data"] == []
    assert sent["next_cursor"] == since["next_cursor"] == key["next_cursor"]


async def test_wrong_values_are_refused_by_name(world: World) -> None:
    """An unknown order and a cursor that nobody issued."""
    async with world.partner("5") as caller:
        for query, param in (
            ("order=up", "order"),
            ("order=", "order"),
            ("order=oldest&cursor=x", "cursor"),
            ("order=oldest&cursor=YWZ0ZXI6LTE", "cursor"),  # after:-1
            ("order=oldest&cursor=-1", "cursor"),
            ("order=oldest&cursor=01", "cursor"),
            ("order=oldest&cursor=9223372036854775807&direction=in", "cursor"),
            ("order=oldest&cursor=9223372036854775808", "cursor"),
            ("order=oldest&cursor=%C2%B2", "cursor"),  # a digit, but not a number
            ("cursor=1", "cursor"),
            ("order=oldest&limit=0", "limit"),
        ):
            answer = await caller.client.get(f"/transfers?{query}")
            assert_problem(answer, 400, "invalid_field", param)


async def test_a_cursor_that_is_ahead_of_the_ledger_is_refused(world: World) -> None:
    """Such a cursor comes from a ledger that has lost transfers; nobody may wait for them."""
    async with world.partner("5") as caller, world.partner() as other:
        for _ in range(3):
            await _pay(caller, other)
        ahead = (await caller.client.get("/transfers?order=oldest")).json()["next_cursor"]
        foreign = await other.client.get(f"/transfers?order=oldest&cursor={ahead}")

    assert foreign.status_code == 503
    assert foreign.json()["code"] == "database_unavailable"


async def test_an_empty_page_waits_for_a_movement(world: World) -> None:
    """It is answered as soon as there is one; the preference is echoed. Newest does not wait."""
    async with world.partner() as caller, world.partner("5") as payer:
        query = "/transfers?order=oldest"
        waiting = asyncio.create_task(caller.client.get(query, headers=WAIT))
        at_once = await caller.client.get("/transfers", headers=WAIT)
        none = await caller.client.get(query, headers={"Prefer": "wait=0"})
        await _pay(payer, caller)
        answer = await waiting
        full = await caller.client.get(query, headers=WAIT)

    assert (at_once.json()["data"], at_once.headers.get("Preference-Applied")) == ([], None)
    assert (none.json()["data"], none.headers["Preference-Applied"]) == ([], "wait=0")
    for page in (answer, full):
        assert [record["sequence"] for record in page.json()["data"]] == [1]
        assert page.headers["Preference-Applied"] == "wait=60"


async def _pay(sender: PartnerClient, recipient: PartnerClient) -> None:
    body = f'{{"to":"@{recipient.account.username}","amount":0.01}}'
    assert (await sender.send(body)).status_code == 201


async def _page(caller: PartnerClient, cursor: str, limit: int) -> dict[str, Any]:
    answer = await caller.client.get(f"/transfers?order=oldest&cursor={cursor}&limit={limit}")
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    return page
