"""POST /oauth/token: a code becomes a token for the app that it was granted to, and no other."""

import pytest

from ousel.database.port import Database
from ousel.partners.store import REDIRECT_URI_STATEMENTS, add_address, remove_address
from tests.oauth.consents import BOTH, REDIRECT_URI, VERIFIER, Consent, basic, bearer, challenge_of
from tests.support.server import Server


async def test_a_code_becomes_a_token(database: Database, server: Server) -> None:
    """A JSON body with the credentials in it: exactly the five fields, never to be cached."""
    consent = await Consent.of_new_people(database)

    async with server.client() as client:
        fields = consent.exchange(await consent.code())
        answer = await client.post("/oauth/token", json=fields)
        token = answer.json()["access_token"]
        profile = await client.get("/user/me", headers=bearer(token))

    assert answer.status_code == 200, answer.text
    assert answer.json() == {
        "access_token": token,
        "token_type": "Bearer",
        "expires_in": 2_592_000,
        "scope": BOTH,
        "user_id": consent.user.id,
    }
    assert token.startswith("ut_live_")
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Pragma"] == "no-cache"
    assert answer.headers["Content-Type"] == "application/json"
    assert profile.json()["id"] == consent.user.id


@pytest.mark.parametrize("as_form", [True, False])
@pytest.mark.parametrize("as_basic", [True, False])
@pytest.mark.parametrize("with_proof", [True, False])
async def test_credentials_and_bodies_can_be_sent_in_every_way(
    database: Database, server: Server, *, as_form: bool, as_basic: bool, with_proof: bool
) -> None:
    """Form or JSON, credentials in the body or as HTTP Basic, with a proof key or without."""
    consent = await Consent.of_new_people(database)
    proof = {"code_challenge": challenge_of(VERIFIER), "code_challenge_method": "S256"}
    code = await (consent.code(**proof) if with_proof else consent.code())
    fields = consent.exchange(code)
    fields["a_parameter_of_tomorrow"] = "is ignored"
    headers = {}
    if with_proof:
        fields["code_verifier"] = VERIFIER
    if as_basic:
        headers["Authorization"] = basic(consent.app.id, consent.key)
        del fields["client_secret"]

    async with server.client() as client:
        answer = await client.post(
            "/oauth/token",
            headers=headers,
            data=fields if as_form else None,
            json=None if as_form else fields,
        )

    assert answer.status_code == 200, answer.text


async def test_another_app_cannot_exchange_the_code(database: Database, server: Server) -> None:
    """A stolen code is worth nothing to another app, and stays good for its own."""
    consent = await Consent.of_new_people(database)
    thief = await Consent.of_new_people(database)
    code = await consent.code()

    async with server.client() as client:
        stolen = await client.post("/oauth/token", json=thief.exchange(code))
        own = await client.post("/oauth/token", json=consent.exchange(code))

    assert (stolen.status_code, stolen.json()["error"]) == (400, "invalid_grant")
    assert own.status_code == 200


async def test_a_code_is_not_exchanged_after_its_redirect_uri_was_removed(
    database: Database, server: Server
) -> None:
    """It is good again when the app has registered the address again."""
    consent = await Consent.of_new_people(database)
    code = await consent.code()
    change = (consent.app, REDIRECT_URI_STATEMENTS, REDIRECT_URI)

    async with server.client() as client:
        await database.write(lambda transaction: remove_address(transaction, *change))
        removed = await client.post("/oauth/token", json=consent.exchange(code))
        await database.write(lambda transaction: add_address(transaction, *change, 1))
        registered = await client.post("/oauth/token", json=consent.exchange(code))

    assert (removed.status_code, removed.json()["error"]) == (400, "invalid_grant")
    assert "no longer has this redirect_uri" in removed.json()["error_description"]
    assert registered.status_code == 200


async def test_a_verifier_without_a_challenge_is_refused(
    database: Database, server: Server
) -> None:
    """A verifier for a code that was asked for without a challenge betrays a downgrade."""
    consent = await Consent.of_new_people(database)
    code = await consent.code()

    async with server.client() as client:
        answer = await client.post(
            "/oauth/token", json=consent.exchange(code, code_verifier=VERIFIER)
        )

    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")


async def test_a_registered_origin_may_read_the_answer(database: Database, server: Server) -> None:
    """A web page of the app's own origin gets the answer with CORS headers."""
    consent = await Consent.of_new_people(database, origins=["https://shop.example"])

    async with server.client() as client:
        answer = await client.post(
            "/oauth/token",
            json=consent.exchange(await consent.code()),
            headers={"Origin": "https://shop.example"},
        )

    assert answer.status_code == 200
    assert answer.headers["Access-Control-Allow-Origin"] == "https://shop.example"
