"""A connection lasts as long as its tokens; ending it takes effect at once."""

import asyncio
from collections import Counter

import msgspec

from ousel.database.port import Database
from ousel.kernel.clock import system_clock
from ousel.oauth import service, store
from ousel.oauth.rules import Token
from ousel.oauth.service import AppConnection
from ousel.partners.store import remove_app
from tests.oauth.consents import Consent, bearer
from tests.support.server import Server


async def connection_of(consent: Consent) -> AppConnection | None:
    """Return the person's connection with the app."""
    return await consent.database.read(
        lambda transaction: service.find_connection(
            transaction, consent.user.id, consent.app.id, system_clock()
        )
    )


async def disconnect(consent: Consent) -> None:
    """Disconnect the person from the app."""
    await consent.database.write(
        lambda transaction: service.disconnect(transaction, consent.user.id, consent.app.id)
    )


async def test_a_connection_shows_all_that_the_app_may_read(
    database: Database, server: Server
) -> None:
    """An app is connected once it is allowed, and has the scopes of all that it was granted."""
    consent = await Consent.of_new_people(database)
    before = await connection_of(consent)
    code = await consent.code(scope="balance")
    allowed = await connection_of(consent)

    async with server.client() as client:
        await client.post("/oauth/token", json=consent.exchange(code))
        first = await connection_of(consent)
        await consent.token(client, scope="profile")
        second = await connection_of(consent)

    assert before is None
    assert allowed is not None
    assert (allowed.app_name, list(allowed.scope_ends)) == (consent.app.name, ["balance"])
    assert first is not None
    # The code counts as the token that it may become.
    assert allowed.scope_ends["balance"] >= first.scope_ends["balance"]
    assert second is not None
    assert (first.app_name, list(first.scope_ends)) == (consent.app.name, ["balance"])
    assert list(second.scope_ends) == ["profile", "balance"]
    assert second.connected_at == first.connected_at
    assert second.scope_ends["balance"] == first.scope_ends["balance"]
    assert second.scope_ends["profile"] > second.scope_ends["balance"]


async def test_every_app_is_listed_however_often_others_were_allowed(database: Database) -> None:
    """An app cannot be hidden behind a thousand grants of another one."""
    consent = await Consent.of_new_people(database)
    other = await Consent.of_new_people(database)
    hidden = Consent(database, other.app, other.key, consent.user)
    now = system_clock()
    token = Token(
        account_id=consent.user.id,
        handle="",
        hash="",
        app_account_id=consent.app.account_id,
        app_id=consent.app.id,
        scope="balance",
        code_handle="",
        created_at=now - 1,
        expires_at=now + 10**9,
        last_used_at=None,
    )
    rows = [
        msgspec.structs.astuple(msgspec.structs.replace(token, handle=f"h{number}"))
        for number in range(1_001)
    ]
    await database.write(lambda transaction: transaction.insert(store.TOKENS, rows))
    await hidden.code(scope="profile")

    assert await connection_of(hidden) is not None
    found = await database.read(
        lambda transaction: service.list_connections(transaction, consent.user.id, now)
    )
    assert [each.app_id for each in found] == [consent.app.id, hidden.app.id]


async def test_disconnecting_ends_tokens_and_codes_at_once(
    database: Database, server: Server
) -> None:
    """Tokens die, codes that were not yet exchanged give none, and other apps stay connected."""
    consent = await Consent.of_new_people(database)
    waiting = await consent.code()

    async with server.client() as client:
        tokens = [await consent.token(client) for _ in range(2)]
        neighbour = await Consent.of_new_people(database)
        untouched = await neighbour.token(client)
        await disconnect(consent)
        answers = [await client.get("/user/me", headers=bearer(token)) for token in tokens]
        late = await client.post("/oauth/token", json=consent.exchange(waiting))
        neighbours = await client.get("/user/me", headers=bearer(untouched))

    assert [answer.status_code for answer in answers] == [401, 401]
    assert late.json()["error"] == "invalid_grant"
    assert neighbours.status_code == 200
    assert await connection_of(consent) is None


async def test_disconnecting_while_codes_are_exchanged(database: Database, server: Server) -> None:
    """Whatever order the database chooses, no token outlives the disconnection."""
    consent = await Consent.of_new_people(database)

    async with server.client() as client:
        for _ in range(5):
            codes = [await consent.code() for _ in range(8)]
            answers, _ = await asyncio.gather(
                asyncio.gather(
                    *(client.post("/oauth/token", json=consent.exchange(code)) for code in codes)
                ),
                disconnect(consent),
            )
            given = [answer for answer in answers if answer.status_code == 200]
            reads = [
                await client.get("/user/me", headers=bearer(answer.json()["access_token"]))
                for answer in given
            ]

            assert {answer.status_code for answer in reads} <= {401}
            assert await connection_of(consent) is None


async def test_a_deleted_app_reads_nothing(database: Database, server: Server) -> None:
    """With the app its tokens and connections are gone, from that moment on."""
    consent = await Consent.of_new_people(database)

    async with server.client() as client:
        token = await consent.token(client)
        await database.write(lambda transaction: remove_app(transaction, consent.app))
        answer = await client.get("/user/me", headers=bearer(token))

    assert answer.status_code == 401
    assert await connection_of(consent) is None


async def test_revoking_ends_one_token(database: Database, server: Server) -> None:
    """RFC 7009: the app ends one token, as often as it likes; its other tokens live."""
    consent = await Consent.of_new_people(database)
    client_fields = {"client_id": consent.app.id, "client_secret": consent.key}

    async with server.client() as client:
        ended, kept = [await consent.token(client) for _ in range(2)]
        fields = client_fields | {"token": ended, "token_type_hint": "access_token"}
        answers = [
            await client.post("/oauth/revoke", json=fields),
            await client.post("/oauth/revoke", data=fields),
            await client.post("/oauth/revoke", data=client_fields | {"token": "nonsense\x00"}),
            await client.post(
                "/oauth/revoke", data={"token": ended}, auth=(consent.app.id, consent.key)
            ),
        ]
        reads = [await client.get("/user/me", headers=bearer(token)) for token in (ended, kept)]

    assert Counter(answer.status_code for answer in answers) == {200: 4}
    assert all(answer.json() == {} for answer in answers)
    assert [answer.status_code for answer in reads] == [401, 200]


async def test_only_the_app_of_a_token_can_revoke_it(database: Database, server: Server) -> None:
    """Without the app's own credentials, or without a token, nothing ends."""
    consent = await Consent.of_new_people(database)
    thief = await Consent.of_new_people(database)

    async with server.client() as client:
        token = await consent.token(client)
        stranger = await client.post("/oauth/revoke", data={"token": token})
        other = await client.post(
            "/oauth/revoke", data={"token": token}, auth=(thief.app.id, thief.key)
        )
        empty = await client.post("/oauth/revoke", data={}, auth=(consent.app.id, consent.key))
        read = await client.get("/user/me", headers=bearer(token))

    assert (stranger.status_code, stranger.json()["error"]) == (401, "invalid_client")
    assert stranger.headers["WWW-Authenticate"].startswith("Basic ")
    assert (other.status_code, other.json()["error"]) == (400, "invalid_grant")
    assert (empty.status_code, empty.json()["error"]) == (400, "invalid_request")
    assert read.status_code == 200
