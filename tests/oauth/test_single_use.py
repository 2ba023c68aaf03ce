"""A code can be exchanged once, however many requests and processes try at the same time."""

import asyncio
from collections import Counter

import httpx2
import pytest

from ousel.database.port import Database
from ousel.oauth.service import disconnect
from tests.oauth.consents import Consent, bearer
from tests.support.server import Server


async def at_once(clients: list[httpx2.AsyncClient], consent: Consent, code: str) -> list[str]:
    """Exchange the code 50 times at once; return the tokens, none of which is still good."""
    answers = await asyncio.gather(
        *(
            clients[number % len(clients)].post("/oauth/token", json=consent.exchange(code))
            for number in range(50)
        )
    )
    statuses = Counter(answer.status_code for answer in answers)
    refused = [answer.json()["error"] for answer in answers if answer.status_code == 400]
    assert statuses == {200: 1, 400: 49}
    assert set(refused) == {"invalid_grant"}
    return [answer.json()["access_token"] for answer in answers if answer.status_code == 200]


@pytest.mark.slow
async def test_fifty_exchanges_at_once(database: Database, server: Server) -> None:
    """One code, 50 exchanges at once: one token, 49 times invalid_grant, and the token is dead."""
    consent = await Consent.of_new_people(database)

    async with server.client() as client:
        for _ in range(3):
            (token,) = await at_once([client], consent, await consent.code())
            answer = await client.get("/user/me", headers=bearer(token))

            assert answer.status_code == 401


async def test_a_replay_ends_the_token_of_the_first_use_alone(
    database: Database, server: Server
) -> None:
    """A second use ends what the first one gave, and nothing that another code gave."""
    consent = await Consent.of_new_people(database)
    code = await consent.code()

    async with server.client() as client:
        first = await client.post("/oauth/token", json=consent.exchange(code))
        other = await consent.token(client)
        before = await client.get("/user/me", headers=bearer(first.json()["access_token"]))
        # Even an exchange with other faults: that client should not have the code at all.
        replay = await client.post(
            "/oauth/token", json=consent.exchange(code, redirect_uri="https://evil.example/")
        )
        after = await client.get("/user/me", headers=bearer(first.json()["access_token"]))
        untouched = await client.get("/user/me", headers=bearer(other))

    assert (before.status_code, after.status_code, untouched.status_code) == (200, 401, 200)
    assert (replay.status_code, replay.json()["error"]) == (400, "invalid_grant")


async def test_another_app_s_replay_ends_nothing(database: Database, server: Server) -> None:
    """A used code in another app's hands is refused, and the first app's token lives on."""
    consent = await Consent.of_new_people(database)
    thief = await Consent.of_new_people(database)
    code = await consent.code()

    async with server.client() as client:
        first = await client.post("/oauth/token", json=consent.exchange(code))
        stolen = await client.post("/oauth/token", json=thief.exchange(code))
        after = await client.get("/user/me", headers=bearer(first.json()["access_token"]))

    assert stolen.json()["error"] == "invalid_grant"
    assert after.status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
async def test_across_two_processes(database: Database, server: Server, database_url: str) -> None:
    """Two servers on one database: still one token at most, and dead on both after the replay."""
    consent = await Consent.of_new_people(database)

    with Server(database_url) as second:
        async with server.client() as here, second.client() as there:
            (token,) = await at_once([here, there], consent, await consent.code())
            answers = [
                await client.get("/user/me", headers=bearer(token)) for client in (here, there)
            ]

    assert [answer.status_code for answer in answers] == [401, 401]


async def test_a_replay_after_a_disconnection_ends_what_the_code_gave(
    database: Database, server: Server
) -> None:
    """A disconnection keeps used codes, and its person may have allowed the app again since."""
    consent = await Consent.of_new_people(database)
    code = await consent.code()

    async with server.client() as client:
        first = await client.post("/oauth/token", json=consent.exchange(code))
        await database.write(
            lambda transaction: disconnect(transaction, consent.user.id, consent.app.id)
        )
        again = await consent.token(client)
        replay = await client.post("/oauth/token", json=consent.exchange(code))
        reads = [
            await client.get("/user/me", headers=bearer(token))
            for token in (first.json()["access_token"], again)
        ]

    assert "used before" in replay.json()["error_description"]
    assert [answer.status_code for answer in reads] == [401, 200]
