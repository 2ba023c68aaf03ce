"""The consent page and /connections: what an app asks, a person decides and can take back."""

import secrets
from collections.abc import AsyncIterator
from urllib.parse import parse_qs, quote, quote_from_bytes, unquote_to_bytes, urlencode, urlsplit

import httpx2
import pytest

from ousel.database.port import Database, Transaction
from ousel.database.statements import Statement
from ousel.partners.service import rename_app
from ousel.partners.store import remove_redirect_uri
from tests.oauth.consents import REDIRECT_URI, Consent, bearer
from tests.portal.forms import form_with
from tests.portal.visitors import Portal, Visitor, opened_portal
from tests.support.passwords import hash_quickly

CODES_OF = Statement(
    "codes of an app", "SELECT COUNT(*) FROM authorization_codes WHERE app_id = :id"
)


@pytest.fixture
async def portal(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Portal]:
    """A portal on the module's database."""
    hash_quickly(monkeypatch)
    async with opened_portal(database_url) as opened:
        yield opened


@pytest.fixture
async def consent(database: Database) -> Consent:
    """An app."""
    return await Consent.of_new_people(database)


def address(consent: Consent, **parameters: str) -> str:
    """Return a connect address of the app."""
    asked = {"client_id": consent.app.id, "redirect_uri": REDIRECT_URI}
    return "/connect?" + urlencode(asked | parameters, quote_via=quote)


async def someone(portal: Portal) -> tuple[str, Visitor]:
    """Return a person who has just signed up, with a name that nobody else has."""
    username = f"user_{secrets.token_hex(5)}"
    return username, await portal.person(username)


async def decide(visitor: Visitor, path: str, decision: str) -> httpx2.Response:
    """Press one of the two buttons."""
    form = form_with((await visitor.get(path)).text, decision)
    return await visitor.post(form.action, form.fields | {"decision": decision.lower()})


async def codes_of(consent: Consent) -> int:
    """Return how many codes the app was given."""

    async def count(transaction: Transaction) -> int:
        return int((await transaction.fetch(CODES_OF, id=consent.app.id))[0][0])

    return await consent.database.read(count)


async def test_an_app_is_allowed(portal: Portal, consent: Consent) -> None:
    """From the app to sign-in, to the page that asks, and back with a code that works."""
    username, _ = await someone(portal)
    visitor = portal.visitor()

    sent = await visitor.get(address(consent, scope="profile balance", state="xyz"))
    signed_in = await visitor.sign_in(username, page=sent.headers["location"])
    page = await visitor.get(signed_in.headers["location"])
    answer = await decide(visitor, signed_in.headers["location"], "Allow")
    back = parse_qs(urlsplit(answer.headers["location"]).query)
    api = portal.visitor().client
    exchange = await api.post("/v1/oauth/token", json=consent.exchange(back["code"][0]))
    profile = await api.get("/v1/user/me", headers=bearer(exchange.json()["access_token"]))

    assert sent.status_code == 303
    assert sent.headers["location"].startswith("/login?next=%2Fconnect%3F")
    assert page.status_code == 200
    for words in (consent.app.name, f"@{username}", "Your profile: name", "Your balance"):
        assert words in page.text
    assert answer.status_code == 303
    assert answer.headers["location"].startswith(f"{REDIRECT_URI}&code=ac_")
    assert (back["state"], back["iss"]) == (["xyz"], [portal.settings.portal_url])
    assert exchange.json()["scope"] == "profile balance"
    assert profile.json()["username"] == username


async def test_a_connection_is_shown_and_ended(portal: Portal, consent: Consent) -> None:
    """What is connected is listed, told when asked again, and gone at once when it is ended."""
    _, visitor = await someone(portal)
    api = portal.visitor().client
    answer = await decide(visitor, address(consent), "Allow")
    code = parse_qs(urlsplit(answer.headers["location"]).query)["code"][0]
    exchange = await api.post("/v1/oauth/token", json=consent.exchange(code))
    headers = bearer(exchange.json()["access_token"])

    asked_again = await visitor.get(address(consent))
    listed = await visitor.get("/connections")
    ended = await visitor.press("/connections", "Disconnect")
    after = await visitor.get(ended.headers["location"])
    profile = await api.get("/v1/user/me", headers=headers)
    history = await visitor.get("/settings/history")

    assert "It is connected since" in asked_again.text
    assert consent.app.name in listed.text
    assert "Your profile: name" in listed.text
    assert ended.headers["location"] == "/connections?done=disconnected"
    assert "is disconnected" in after.text
    assert consent.app.name not in after.text
    assert profile.status_code == 401
    assert history.text.count(consent.app.name) == 2


async def test_a_person_may_say_no(portal: Portal, consent: Consent) -> None:
    """Deny goes back with access_denied and the state, and gives no code."""
    _, visitor = await someone(portal)

    answer = await decide(visitor, address(consent, state="s t"), "Deny")

    back = parse_qs(urlsplit(answer.headers["location"]).query)
    assert answer.status_code == 303
    assert back.pop("error_description")
    assert back == {
        "lane": ["3"],
        "error": ["access_denied"],
        "state": ["s t"],
        "iss": [portal.settings.portal_url],
    }
    assert await codes_of(consent) == 0


@pytest.mark.parametrize("signed_in", [True, False])
async def test_a_wrong_address_is_told_to_the_person(
    portal: Portal, consent: Consent, *, signed_in: bool
) -> None:
    """An unknown app or redirect URI is a page that leads nowhere else, signed in or not."""
    visitor = (await someone(portal))[1] if signed_in else portal.visitor()

    for wrong in (
        address(consent, client_id="app_unknown"),
        address(consent, redirect_uri="https://evil.example/"),
        address(consent, redirect_uri=""),
        "/connect",
        "/connect?client_id=%00&redirect_uri=%ff",
        "/connect?" + "&".join(f"a{number}=1" for number in range(200)),
    ):
        answer = await visitor.get(wrong)

        assert answer.status_code == 400, wrong
        assert answer.headers["Content-Type"].startswith("text/html")
        assert "location" not in answer.headers
        assert "evil.example" not in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize("signed_in", [True, False])
async def test_anything_else_wrong_goes_back_to_the_app(
    portal: Portal, consent: Consent, *, signed_in: bool
) -> None:
    """A wrong scope is the app's mistake, and the app hears of it at once."""
    visitor = (await someone(portal))[1] if signed_in else portal.visitor()

    answer = await visitor.get(address(consent, scope="everything", state="1"))

    assert answer.status_code == 303
    assert answer.headers["location"].startswith(f"{REDIRECT_URI}&error=invalid_scope&")


async def test_only_the_page_s_own_form_decides(portal: Portal, consent: Consent) -> None:
    """A form from another site, or without the page's token, or without a decision, gives none."""
    _, visitor = await someone(portal)
    path = address(consent)
    form = await visitor.form(path, "Allow")
    allow = form.fields | {"decision": "allow"}

    forged = await visitor.post(path, {"decision": "allow"})
    foreign = await visitor.post(path, allow, Origin="https://evil.example")
    undecided = await visitor.post(path, form.fields)
    stranger = await portal.visitor().post(path, allow)

    assert (forged.status_code, foreign.status_code, stranger.status_code) == (403, 403, 403)
    assert undecided.headers["location"].startswith("/connect?client_id=")
    assert await codes_of(consent) == 0


async def test_what_changed_meanwhile_counts(portal: Portal, consent: Consent) -> None:
    """A redirect URI that was removed while the person thought about it leads nowhere."""
    _, visitor = await someone(portal)
    form = await visitor.form(address(consent), "Allow")
    await consent.database.write(
        lambda transaction: remove_redirect_uri(transaction, consent.app, REDIRECT_URI)
    )

    answer = await visitor.post(form.action, form.fields | {"decision": "allow"})

    assert answer.status_code == 400
    assert await codes_of(consent) == 0


async def test_the_page_may_lead_to_the_app_and_cannot_be_framed(
    portal: Portal, consent: Consent
) -> None:
    """The policy lets the form end at the redirect URI's origin alone, and no site frame it."""
    _, visitor = await someone(portal)

    policy = (await visitor.get(address(consent))).headers["Content-Security-Policy"]

    assert "frame-ancestors 'none'" in policy
    assert policy.endswith("form-action 'self' https://shop.example")


async def test_names_are_text(portal: Portal, consent: Consent) -> None:
    """An app's name cannot become a part of the page."""
    _, visitor = await someone(portal)
    name = "<script>alert(1)</script>"
    await consent.database.write(lambda transaction: rename_app(transaction, consent.app, name))

    page = (await visitor.get(address(consent))).text

    assert name not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


@pytest.mark.parametrize(
    "raw",
    [
        b"plain",
        b'"><script>',
        b"a\\b",
        b"\xff\xfe",
        b"%25+%2B",
        b"a;b|c^d`e{f}'g",
        "ünïcode €".encode(),
    ],
)
async def test_state_survives_sign_in_and_the_form(
    portal: Portal, consent: Consent, raw: bytes
) -> None:
    """However the state is spelt, its bytes come back, through sign-in and the form."""
    username, _ = await someone(portal)
    visitor = portal.visitor()
    state = quote_from_bytes(raw, safe="\\+%;|^`{}'")

    sent = await visitor.get(f"{address(consent)}&state={state}")
    signed_in = await visitor.sign_in(username, page=sent.headers["location"])
    answer = await decide(visitor, signed_in.headers["location"], "Allow")

    returned = answer.headers["location"].partition("&state=")[2].partition("&")[0]
    expected = unquote_to_bytes(state.replace("+", "%20"))
    assert unquote_to_bytes(returned) == expected


async def test_only_one_s_own_connection_ends(portal: Portal, consent: Consent) -> None:
    """Disconnecting an app that is not connected is a 404, and nobody else's connection ends."""
    first_name, first = await someone(portal)
    _, second = await someone(portal)
    answer = await decide(first, address(consent), "Allow")
    code = parse_qs(urlsplit(answer.headers["location"]).query)["code"][0]
    api = portal.visitor().client
    exchange = await api.post("/v1/oauth/token", json=consent.exchange(code))
    token = exchange.json()["access_token"]

    form = await first.form("/connections", "Disconnect")
    own_token = (await second.form("/settings", "Sign out")).fields["form_token"]
    other = await second.post(form.action, {"form_token": own_token})
    profile = await api.get("/v1/user/me", headers=bearer(token))

    assert other.status_code == 404
    assert profile.json()["username"] == first_name
    assert "No app can read your account" in (await second.get("/connections")).text
