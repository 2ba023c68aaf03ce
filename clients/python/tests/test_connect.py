"""Connecting people: addresses, codes, tokens, and what a token lets an app read."""

import asyncio
import hashlib
import secrets
from base64 import urlsafe_b64encode
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest

from clients.python.tests.client_kinds import ClientKind, client_of, result_of
from ousel.database.addresses import open_database
from ousel.kernel.clock import Clock, system_clock
from ousel.ledger.rules import Account
from ousel.oauth.connect import ConnectRequest, connect_request, issue_code
from ousel_client import (
    ApiError,
    AsyncUserClient,
    BadRequest,
    Client,
    Holder,
    Missing,
    ProofKey,
    ReturnNotTrusted,
    UnexpectedAnswer,
    UserClient,
    UserToken,
)
from ousel_client.refusals import (
    AccessDenied,
    InsufficientScope,
    InvalidClient,
    InvalidGrant,
    InvalidScope,
    InvalidToken,
)
from tests.support.accounts import person
from tests.support.seeded import REDIRECT_URI, SeededServer

BOTH = ("profile", "balance")


async def connected(
    seeded: SeededServer, url: str, clock: Clock = system_clock
) -> tuple[str, Account]:
    """Let a new person connect at this address; return the return address and the person."""
    async with open_database(seeded.url) as database:
        user = await person(database, f"user_{secrets.token_hex(5)}", "12.5", clock)
        query = urlsplit(url).query.encode()
        issuer = seeded.server.origin
        request = await database.read(
            lambda transaction: connect_request(transaction, query, issuer)
        )
        assert isinstance(request, ConnectRequest), request
        code = await database.write(
            lambda transaction: issue_code(transaction, request, user.id, clock)
        )
    state = parse_qs(urlsplit(url).query)["state"][0]
    return f"{REDIRECT_URI}?{urlencode({'code': code, 'state': state, 'iss': issuer})}", user


async def token_for(client: Any, seeded: SeededServer, *scope: str) -> tuple[UserToken, Account]:
    """Let a new person connect; return the user token and the person."""
    url = client.connect_url(
        client_id=seeded.app.id, redirect_uri=REDIRECT_URI, state="s", scope=scope
    )
    return_url, user = await connected(seeded, url)
    code = client.code_from(return_url, state="s")
    token = await result_of(
        client.exchange_code(code, client_id=seeded.app.id, redirect_uri=REDIRECT_URI)
    )
    assert isinstance(token, UserToken)
    return token, user


async def test_an_app_reads_a_person_who_connected(client: Any, live: SeededServer) -> None:
    """After the whole flow, with a proof key, the app can read the profile and the balance."""
    proof_key = ProofKey()
    url = client.connect_url(
        client_id=live.app.id,
        redirect_uri=REDIRECT_URI,
        state="a secret & more",
        scope=BOTH,
        proof_key=proof_key,
    )
    return_url, user = await connected(live, url)

    token = await result_of(
        client.exchange_code(
            client.code_from(return_url, state="a secret & more"),
            client_id=live.app.id,
            redirect_uri=REDIRECT_URI,
            code_verifier=proof_key.verifier,
        )
    )
    me = await result_of(client.user(token.access_token).me())
    balance = await result_of(client.user(token.access_token).balance())

    assert (token.token_type, token.scope, token.user_id) == ("Bearer", "profile balance", user.id)
    assert token.expires_in == 30 * 24 * 60 * 60
    assert isinstance(me, Holder)
    assert (me.id, me.email) == (user.id, f"{user.username}@example.com")
    assert balance.available == Decimal("12.5")


async def test_a_user_client_needs_only_a_token(client: Any, live: SeededServer) -> None:
    """A user client reads with the token, without a partner key."""
    token, user = await token_for(client, live, "profile")

    def read() -> str:
        with UserClient(token.access_token, base_url=live.base_url) as waiting:
            return waiting.me().id

    async with AsyncUserClient(token.access_token, base_url=live.base_url) as awaiting:
        assert (await awaiting.me()).id == user.id
        with pytest.raises(InsufficientScope) as raised:
            await awaiting.balance()
    assert await asyncio.to_thread(read) == user.id
    assert raised.value.members["scope"] == "balance"


async def test_a_revoked_token_has_ended(client: Any, live: SeededServer) -> None:
    """A revoked token is refused; revoking it again is not an error."""
    token, _ = await token_for(client, live, "profile")

    for _ in range(2):
        assert await result_of(client.revoke(token.access_token, client_id=live.app.id)) is None

    with pytest.raises(InvalidToken):
        await result_of(client.user(token.access_token).me())


async def test_a_code_is_good_once(client: Any, live: SeededServer) -> None:
    """A second exchange raises InvalidGrant, without retries."""
    url = client.connect_url(client_id=live.app.id, redirect_uri=REDIRECT_URI, state="s")
    code = client.code_from((await connected(live, url))[0], state="s")
    parts = {"client_id": live.app.id, "redirect_uri": REDIRECT_URI}
    await result_of(client.exchange_code(code, **parts))

    with pytest.raises(InvalidGrant) as raised:
        await result_of(client.exchange_code(code, **parts))

    assert raised.value.status == 400
    assert raised.value.attempts == 1


async def test_the_key_is_the_apps_secret(live: SeededServer, client_kind: ClientKind) -> None:
    """A wrong key raises InvalidClient."""
    async with client_of(client_kind, "sk_live_wrong", live.base_url) as client:
        with pytest.raises(InvalidClient):
            await result_of(
                client.exchange_code("ac_x", client_id=live.app.id, redirect_uri=REDIRECT_URI)
            )


@pytest.mark.parametrize(
    "answer",
    [
        httpx2.Response(308, headers={"Location": "https://pay.example/v1/oauth/revoke"}),
        httpx2.Response(200, html="<h1>Welcome to our network</h1>"),
    ],
    ids=["redirect", "portal of a network"],
)
def test_a_revocation_that_ousel_did_not_answer_fails(
    answer: httpx2.Response,
) -> None:
    """If something other than Ousel answers, the call fails, because the token has not ended."""
    transport = httpx2.MockTransport(lambda _: answer)
    with (
        Client("sk_live_any", base_url="http://pay.example/v1", transport=transport) as client,
        pytest.raises(UnexpectedAnswer),
    ):
        client.revoke("ut_live_any", client_id="app_1")


def test_a_connect_address_is_encoded() -> None:
    """The address is at the portal, and each parameter can be decoded to its value."""
    with Client("sk_live_any", base_url="https://api.example/v1") as client:
        at_host = client.connect_url(client_id="app_1", redirect_uri=REDIRECT_URI, state="s")
    with Client(
        "sk_live_any", base_url="https://api.example/v1", portal_url="https://pay.example"
    ) as client:
        url = client.connect_url(
            client_id="app_1",
            redirect_uri="https://shop.example/?a=b&c=d",
            state="\u00e4 &=%",
            scope=BOTH,
            proof_key=ProofKey("v" * 43),
        )

    assert at_host.startswith("https://api.example/connect?")
    parts = urlsplit(url)
    assert f"{parts.scheme}://{parts.netloc}{parts.path}" == "https://pay.example/connect"
    digest = hashlib.sha256(b"v" * 43).digest()
    assert {name: value for name, (value,) in parse_qs(parts.query).items()} == {
        "response_type": "code",
        "client_id": "app_1",
        "redirect_uri": "https://shop.example/?a=b&c=d",
        "scope": "profile balance",
        "state": "\u00e4 &=%",
        "code_challenge": urlsafe_b64encode(digest).decode().rstrip("="),
        "code_challenge_method": "S256",
    }


@pytest.mark.parametrize("scope", ["profile balance", ("profile", "balance")])
def test_scopes_are_a_list_or_a_text(scope: str | tuple[str, ...]) -> None:
    """A list and a text give the same address."""
    with Client("sk_live_any", base_url="https://pay.example/v1") as client:
        url = client.connect_url(
            client_id="app_1", redirect_uri=REDIRECT_URI, state="s", scope=scope
        )

    assert parse_qs(urlsplit(url).query)["scope"] == ["profile balance"]


def test_an_issuer_that_is_not_the_portal_is_named() -> None:
    """The error names both addresses, which helps if one server is called by two names."""
    back = urlencode({"code": "ac_1", "state": "s", "iss": "http://127.0.0.1:8000"})
    with (
        Client("sk_test_any", base_url="http://localhost:8000/v1") as client,
        pytest.raises(ReturnNotTrusted, match=r"'http://127\.0\.0\.1:8000' .*localhost:8000'"),
    ):
        client.code_from(f"{REDIRECT_URI}?{back}", state="s")


@pytest.mark.parametrize(
    ("base_url", "issuer"),
    [
        ("https://pay.example:443/v1", "https://pay.example"),
        ("https://Pay.Example/v1", "https://pay.example"),
        ("HTTP://localhost:80/v1", "http://localhost"),
        ("http://[::1]:443/v1", "http://[::1]:443"),
    ],
)
def test_the_portal_is_found_however_the_address_is_written(base_url: str, issuer: str) -> None:
    """Capital letters and the default port do not make another address."""
    back = urlencode({"code": "ac_1", "state": "s", "iss": issuer})
    portal_url = base_url.removesuffix("/v1")
    with (
        Client("sk_live_any", base_url=base_url) as client,
        Client("sk_live_any", base_url=base_url, portal_url=portal_url) as given,
    ):
        for each in (client, given):
            assert each.code_from(f"{REDIRECT_URI}?{back}", state="s") == "ac_1"


@pytest.mark.parametrize("portal_url", ["pay.example", "https://name:password@pay.example"])
def test_a_portal_is_the_address_of_a_server(portal_url: str) -> None:
    """Otherwise people would be sent to an address that leads nowhere, or shows a password."""
    with pytest.raises(ValueError, match="address"):
        Client("sk_live_any", base_url="https://pay.example/v1", portal_url=portal_url)


def test_proof_keys_differ_and_stay_hidden() -> None:
    """Each proof key has a new verifier, which its repr does not show."""
    first, second = ProofKey(), ProofKey()

    assert first.verifier != second.verifier
    assert len(first.verifier) == 43
    assert first.verifier not in repr(first)


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ({"code": "ac_1", "state": "other", "iss": "https://pay.example"}, ReturnNotTrusted),
        ({"code": "ac_1", "iss": "https://pay.example"}, ReturnNotTrusted),
        ({"code": "ac_1", "state": "s"}, ReturnNotTrusted),
        ({"code": "ac_1", "state": "s", "iss": "https://evil.example"}, ReturnNotTrusted),
        ({"error": "access_denied", "state": "s", "iss": "https://pay.example"}, AccessDenied),
        ({"error": "invalid_scope", "state": "s", "iss": "https://pay.example"}, InvalidScope),
        ({"error": "of_tomorrow", "state": "s", "iss": "https://pay.example"}, BadRequest),
        ({"state": "s", "iss": "https://pay.example"}, UnexpectedAnswer),
    ],
)
def test_a_wrong_return_address_gives_no_code(query: dict[str, str], kind: type[Exception]) -> None:
    """A wrong state or issuer is reported before anything else in the return address."""
    with (
        Client("sk_live_any", base_url="https://pay.example/v1") as client,
        pytest.raises(kind),
    ):
        client.code_from(f"{REDIRECT_URI}?{urlencode(query)}", state="s")


@pytest.mark.parametrize(
    ("code", "status"), [("access_denied", 403), ("invalid_scope", 400), ("of_tomorrow", 400)]
)
def test_an_error_in_a_return_address_has_the_status_of_its_class(code: str, status: int) -> None:
    """The address contains no status, but programs compare the statuses of all errors."""
    query = {"error": code, "state": "s", "iss": "https://pay.example"}
    with (
        Client("sk_live_any", base_url="https://pay.example/v1") as client,
        pytest.raises(ApiError) as raised,
    ):
        client.code_from(f"{REDIRECT_URI}?{urlencode(query)}", state="s")

    assert (raised.value.code, raised.value.status) == (code, status)


def test_a_state_is_never_empty() -> None:
    """An empty state is refused, even if the return address has an empty state too."""
    with (
        Client("sk_live_any", base_url="https://pay.example/v1") as client,
        pytest.raises(ReturnNotTrusted),
    ):
        client.code_from(f"{REDIRECT_URI}?code=ac_1&state=&iss=https://pay.example", state="")


def test_a_slash_at_the_end_of_an_address_means_nothing() -> None:
    """The addresses of server and portal may end with a slash."""
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url))
        return httpx2.Response(404)

    with Client(
        "sk_live_any",
        base_url="https://api.example/v1/",
        portal_url="https://pay.example/",
        transport=httpx2.MockTransport(answer),
    ) as client:
        url = client.connect_url(client_id="app_1", redirect_uri=REDIRECT_URI, state="s")
        back = urlencode({"code": "ac_1", "state": "s", "iss": "https://pay.example"})
        with pytest.raises(Missing):
            client.balance()

        assert url.startswith("https://pay.example/connect?")
        assert client.code_from(f"{REDIRECT_URI}?{back}", state="s") == "ac_1"
        assert asked == ["https://api.example/v1/balance"]
