"""The clock of the machine steps back; the ledger keeps its order."""

import random
from functools import partial
from typing import Any

import pytest

from ousel.database.addresses import open_database
from ousel.ledger.rules import AHEAD_MICROS_MAX
from tests.support.accounts import verify
from tests.support.clock import ManualClock
from tests.support.in_process import in_process_client
from tests.support.raw_sql import RawSql
from tests.support.seeded import SeededDatabase

pytestmark = pytest.mark.slow

HOUR = 3600

STEPS = 60


async def listed(client: Any, key: str) -> list[dict[str, Any]]:
    """Return all transfers of the partner, page by page."""
    transfers: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        answer = await client.get(
            "/transfers", params={"limit": 25, **cursor}, headers={"Authorization": key}
        )
        page = answer.json()
        transfers += page["data"]
        if not page["has_more"]:
            return transfers
        cursor = {"cursor": page["next_cursor"]}


async def test_a_clock_that_steps_back_does_not_bring_the_books_out_of_order(
    seeded: SeededDatabase, chance: random.Random
) -> None:
    """After steps of up to half a minute in both directions each exists once, dated in order."""
    clock = ManualClock()
    authorization = f"Bearer {seeded.key}"
    sent: list[str] = []
    latest = clock()
    async with in_process_client(seeded.url, clock) as client:
        for number in range(STEPS):
            clock.advance(seconds=chance.randint(-30, 30), micros=chance.randint(0, 999))
            clock.now = max(clock.now, latest - AHEAD_MICROS_MAX)
            latest = max(clock.now, latest)
            wanted = partial(
                client.post,
                "/transfers",
                json={"to": "@ada", "amount": 1},
                headers={"Authorization": authorization, "Idempotency-Key": f"step-{number}"},
            )
            first, again = await wanted(), await wanted()
            assert (first.status_code, again.status_code) == (201, 200)
            assert again.json() == first.json()
            sent.append(first.json()["id"])
        transfers = await listed(client, authorization)

    assert [each["id"] for each in transfers if each["kind"] == "transfer"] == sent[::-1]
    dates = [each["created_at"] for each in transfers]
    assert dates == sorted(dates, reverse=True)
    async with RawSql(seeded.url) as raw_sql:
        rows = await raw_sql.run("SELECT count(*) FROM entries WHERE kind = 'transfer'")
    assert rows == [(2 * STEPS,)]
    async with open_database(seeded.url) as database:
        await verify(database)


async def test_after_a_large_step_back_nothing_moves_until_the_clock_has_caught_up(
    seeded: SeededDatabase,
) -> None:
    """The refusal tells the partner to retry, and the retry with the same key moves once."""
    clock = ManualClock()
    async with in_process_client(seeded.url, clock) as client:
        transfer = partial(
            client.post,
            "/transfers",
            json={"to": "@ada", "amount": 1},
            headers={"Authorization": f"Bearer {seeded.key}", "Idempotency-Key": "once"},
        )
        clock.advance(seconds=-HOUR)
        refused = await transfer()
        clock.advance(seconds=HOUR)
        moved, replayed = await transfer(), await transfer()

    assert (refused.status_code, refused.json()["code"]) == (503, "entry_ahead_of_clock")
    assert refused.headers["Retry-After"] == "60"
    assert (moved.status_code, replayed.status_code) == (201, 200)
    assert len(await seeded.transfers()) == 1
