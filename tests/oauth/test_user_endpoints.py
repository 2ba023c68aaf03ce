"""GET /user/me and /user/balance: what a user token may read, and what it may not."""

import httpx2
import pytest

from ousel.database.port import Database, Transaction
from ousel.kernel.clock import system_clock, timestamp
from ousel.kernel.settings import RateLimit
from ousel.oauth import service
from ousel.partners.service import issue_key
from tests.oauth.consents import Consent, bearer
from tests.support.clock import ManualClock
from tests.support.in_process import in_process_client
from tests.support.server import Server

PARTNERS_PATHS = ["/me", "/balance", "/accounts/@ada", "/transfers"]
USERS_PATHS = ["/user/me", "/user/balance"]


async def test_the_profile_and_the_balance(database: Database, server: Server) -> None:
    """The profile is the holder's view without an app; the balance is the balance record."""
    consent = await Consent.of_new_people(database)
    user = consent.user

    async with server.client() as client:
        headers = bearer(await consent.token(client))
        profile = await client.get("/user/me", headers=headers)
        balance = await client.get("/user/balance", headers=headers)

    assert profile.status_code == balance.status_code == 200
    assert profile.json() == {
        "object": "account",
        "id": user.id,
        "username": user.username,
        "account_number": user.account_number,
        "email": f"{user.username}@example.com",
        "email_verified": True,
        "display_name": user.display_name,
        "status": "active",
        "created_at": timestamp(user.created_at),
    }
    assert '"available":12.50,' in balance.text
    assert set(balance.json()) == {"object", "account_id", "currency", "available", "updated_at"}
    assert balance.json()["account_id"] == user.id


@pytest.mark.parametrize(
    ("scope", "path", "lacking"),
    [("profile", "/user/balance", "balance"), ("balance", "/user/me", "profile")],
)
async def test_a_scope_allows_its_own_endpoint_only(
    database: Database, server: Server, scope: str, path: str, lacking: str
) -> None:
    """Without the scope: 403 insufficient_scope, with the challenge of RFC 6750."""
    consent = await Consent.of_new_people(database)

    async with server.client() as client:
        headers = bearer(await consent.token(client, scope=scope))
        refused = await client.get(path, headers=headers)
        opened = await client.get(
            next(each for each in USERS_PATHS if each != path), headers=headers
        )

    assert opened.status_code == 200
    assert refused.status_code == 403
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert refused.json()["code"] == "insufficient_scope"
    challenge = f'Bearer error="insufficient_scope", scope="{lacking}"'
    assert refused.headers["WWW-Authenticate"] == challenge


@pytest.mark.parametrize("path", USERS_PATHS)
async def test_every_invalid_token_gets_the_same_answer(
    database: Database, server: Server, path: str
) -> None:
    """401 with the challenge of RFC 6750: no error where nothing was sent, else invalid_token."""
    consent = await Consent.of_new_people(database)
    wrong = {
        "unknown": f"Bearer ut_live_{'0' * 40}",
        "a partner key": f"Bearer {consent.key}",
        "a code": f"Bearer {await consent.code()}",
        "malformed": "Bearer ut_live_",
        "empty": "Bearer x",
        "long": f"Bearer ut_live_{'0' * 5_000}",
        "not ASCII": "Bearer ut_live_ÿ",
    }

    async with server.client() as client:
        token = await consent.token(client)
        wrong["the last character"] = f"Bearer {token[:-1]}{'1' if token[-1] == '0' else '0'}"
        answers = {
            name: await client.get(path, headers={b"Authorization": value.encode("latin-1")})
            for name, value in wrong.items()
        }
        missing = [
            await client.get(path),
            await client.get(path, headers={"Authorization": "Basic abc"}),
        ]

    for name, answer in answers.items():
        assert answer.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"', name
    for answer in missing:
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    bodies = [_without_request_id(answer) for answer in [*answers.values(), *missing]]
    assert all(answer.status_code == 401 for answer in [*answers.values(), *missing])
    assert all(body == bodies[0] for body in bodies)
    assert bodies[0]["code"] == "invalid_token"


async def test_a_user_token_is_refused_by_partner_endpoints(
    database: Database, server: Server
) -> None:
    """A user token on a partner's endpoint is a 401, as an unknown key is."""
    consent = await Consent.of_new_people(database)

    async with server.client() as client:
        headers = bearer(await consent.token(client))
        answers = [await client.get(path, headers=headers) for path in PARTNERS_PATHS]
        answers.append(
            await client.post(
                "/transfers", json={"to": f"@{consent.user.username}", "amount": 1}, headers=headers
            )
        )

    assert {answer.status_code for answer in answers} == {401}
    assert {answer.json()["code"] for answer in answers} == {"unauthorized"}


async def test_an_origin_must_be_of_the_token_s_own_app(database: Database, server: Server) -> None:
    """A web page may read with a user token where the app has registered its origin."""
    consent = await Consent.of_new_people(database, origins=["https://shop.example"])
    await Consent.of_new_people(database, origins=["https://other.example"])

    async with server.client() as client:
        headers = bearer(await consent.token(client))
        own = await client.get("/user/me", headers=headers | {"Origin": "https://shop.example"})
        other = await client.get("/user/me", headers=headers | {"Origin": "https://other.example"})

    assert own.status_code == 200
    assert own.headers["Access-Control-Allow-Origin"] == "https://shop.example"
    assert other.status_code == 403
    assert other.json()["code"] == "origin_not_allowed"


async def test_a_token_belongs_to_live_or_to_the_sandbox(database_url: str) -> None:
    """A server refuses tokens of the other kind by name."""
    live, test = f"ut_live_{'0' * 40}", f"ut_test_{'0' * 40}"

    async with in_process_client(database_url) as client:
        on_live = await client.get("/user/me", headers=bearer(test))
    async with in_process_client(database_url, sandbox=True) as client:
        on_sandbox = await client.get("/user/me", headers=bearer(live))

    assert (on_live.status_code, on_sandbox.status_code) == (401, 401)
    assert "ut_live_" in on_live.json()["detail"]
    assert "ut_test_" in on_sandbox.json()["detail"]


async def test_a_sandbox_gives_test_tokens(database: Database, database_url: str) -> None:
    """In a sandbox a code is exchanged with a test key for a test token, which works there."""
    consent = await Consent.of_new_people(database)
    issued = await database.write(
        lambda transaction: issue_key(transaction, consent.app, "test", "test", system_clock)
    )

    async with in_process_client(database_url, sandbox=True) as client:
        fields = consent.exchange(await consent.code(), client_secret=issued.secret)
        answer = await client.post("/oauth/token", json=fields)
        token = answer.json()["access_token"]
        profile = await client.get("/user/me", headers=bearer(token))

    assert token.startswith("ut_test_")
    assert profile.status_code == 200


async def test_the_rate_limit_counts_each_token(database: Database, database_url: str) -> None:
    """A token that asks too often is told to wait, while another one of the same app is served."""
    consent = await Consent.of_new_people(database)

    async with in_process_client(database_url, rate_limit=RateLimit(2, 3600)) as client:
        busy, calm = [bearer(await consent.token(client)) for _ in range(2)]
        answers = [await client.get("/user/me", headers=busy) for _ in range(3)]
        other = await client.get("/user/me", headers=calm)

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert int(answers[-1].headers["Retry-After"]) > 0
    assert other.status_code == 200


async def test_the_last_use_of_a_token_is_recorded(database: Database, database_url: str) -> None:
    """When a token was last used is written down once for many uses, at the latest on closing."""
    consent = await Consent.of_new_people(database)
    clock = ManualClock()

    async def last_used_at(transaction: Transaction) -> int | None:
        found = await service.list_connections(transaction, consent.user.id, clock())
        return found[0].last_used_at

    async with in_process_client(database_url, clock) as client:
        headers = bearer(await consent.token(client, clock))
        for _ in range(20):
            clock.advance(seconds=1)
            await client.get("/user/me", headers=headers)
        before = await database.read(last_used_at)
    after = await database.read(last_used_at)

    assert before is None
    assert after == clock()


def _without_request_id(answer: httpx2.Response) -> dict[str, object]:
    body: dict[str, object] = answer.json()
    del body["request_id"]
    return body
