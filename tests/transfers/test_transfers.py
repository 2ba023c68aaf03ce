"""POST /transfers: money moves once, whole, and only when it may."""

import asyncio
from collections import Counter

from ousel.database.port import Database
from tests.support.books import balance, partner, person, proven
from tests.support.servers import Server


async def test_a_transfer_debits_the_key_owner_and_credits_the_recipient(
    database: Database, server: Server
) -> None:
    """A transfer answers 201 and moves the amount from one balance to the other."""
    sender, _, key = await partner(database, "harbour", "100")
    recipient = await person(database, "ada")

    async with server.client(key) as client:
        answer = await client.post(
            "/transfers", json={"to": "@ada", "amount": 25.5, "note": "Hello"}
        )

    assert answer.status_code == 201, answer.text
    assert '"amount":25.50,' in answer.text
    assert await balance(database, sender) == 74_500_000
    assert await balance(database, recipient) == 25_500_000
    await proven(database)


async def test_one_key_many_times_at_once_moves_once(database: Database, server: Server) -> None:
    """80 concurrent posts with one key: one 201, 79 replays of it, one movement."""
    sender, _, key = await partner(database, "harbour", "100")
    await person(database, "ada")

    async with server.client(key) as client:
        answers = await asyncio.gather(
            *(
                client.post(
                    "/transfers",
                    json={"to": "@ada", "amount": 1},
                    headers={"Idempotency-Key": "only-once"},
                )
                for _ in range(80)
            )
        )

    assert Counter(answer.status_code for answer in answers) == {201: 1, 200: 79}
    assert len({answer.json()["id"] for answer in answers}) == 1
    replays = [answer for answer in answers if answer.status_code == 200]
    assert all(answer.headers["Idempotent-Replayed"] == "true" for answer in replays)
    assert await balance(database, sender) == 99_000_000
    await proven(database)
