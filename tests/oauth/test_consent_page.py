"""The consent page: who asks for what, and what a person decides."""

import re
from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest

from ousel.accounts.service import account_by_id
from ousel.database.port import Database
from ousel.kernel.clock import MICROS_PER_SECOND, timestamp
from ousel.oauth.connect_urls import QUERY_BYTES_MAX
from ousel.partners.service import rename_app
from ousel.partners.store import REDIRECT_URI_STATEMENTS, remove_address
from tests.oauth.consent_steps import connect_path, count_codes, decide, new_person
from tests.oauth.consents import REDIRECT_URI, Consent, bearer
from tests.support.portal import Portal

pytestmark = pytest.mark.one_engine


def text_of(html: str) -> str:
    """Return what a page says, in one line."""
    return " ".join(unescape(re.sub("<[^>]*>", " ", html)).split())


async def test_an_app_is_allowed(portal: Portal, consent: Consent) -> None:
    """From the app to sign-in, to the page that asks, and back with a code that works."""
    username, _ = await new_person(portal)
    visitor = portal.visitor()

    sent = await visitor.get(connect_path(consent, scope="profile balance", state="xyz"))
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


@pytest.mark.parametrize("characters", ["/:,@", "{[|^`]}:"])
async def test_a_person_can_allow_an_app_with_the_longest_address(
    portal: Portal, consent: Consent, characters: str
) -> None:
    """The page sends back the address as it came, so it does not get longer."""
    _, visitor = await new_person(portal)
    path = connect_path(consent)
    room = QUERY_BYTES_MAX - len(path.partition("?")[2]) - len("&state=")
    state = characters * (room // len(characters))

    answer = await decide(visitor, f"{path}&state={state}", "Allow")

    assert parse_qs(urlsplit(answer.headers["location"]).query)["state"] == [state]


async def test_a_person_can_deny_access(portal: Portal, consent: Consent) -> None:
    """Deny goes back with access_denied and the state, and gives no code."""
    _, visitor = await new_person(portal)

    answer = await decide(visitor, connect_path(consent, state="s t"), "Deny")

    back = parse_qs(urlsplit(answer.headers["location"]).query)
    assert answer.status_code == 303
    assert back.pop("error_description")
    assert back == {
        "lane": ["3"],
        "error": ["access_denied"],
        "state": ["s t"],
        "iss": [portal.settings.portal_url],
    }
    assert await count_codes(consent) == 0


@pytest.mark.parametrize("signed_in", [True, False])
async def test_a_wrong_connect_address_is_reported_to_the_person(
    portal: Portal, consent: Consent, *, signed_in: bool
) -> None:
    """An unknown app or redirect URI is a page that leads nowhere else, signed in or not."""
    visitor = (await new_person(portal))[1] if signed_in else portal.visitor()

    for wrong in (
        connect_path(consent, client_id="app_unknown"),
        connect_path(consent, redirect_uri="https://evil.example/"),
        connect_path(consent, redirect_uri=""),
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
    visitor = (await new_person(portal))[1] if signed_in else portal.visitor()

    answer = await visitor.get(connect_path(consent, scope="everything", state="1"))

    assert answer.status_code == 303
    assert answer.headers["location"].startswith(f"{REDIRECT_URI}&error=invalid_scope&")


async def test_only_the_page_s_own_form_is_accepted(portal: Portal, consent: Consent) -> None:
    """A form from another site, or without the page's token, or without a decision, gives none."""
    _, visitor = await new_person(portal)
    path = connect_path(consent)
    form = await visitor.form(path, "Allow")
    allow = form.fields | {"decision": "allow"}

    forged = await visitor.post(path, {"decision": "allow"})
    foreign = await visitor.post(path, allow, Origin="https://evil.example")
    undecided = await visitor.post(path, form.fields)
    stranger = await portal.visitor().post(path, allow)

    assert (forged.status_code, foreign.status_code, stranger.status_code) == (403, 403, 403)
    assert undecided.headers["location"].startswith("/connect?client_id=")
    assert await count_codes(consent) == 0


async def test_the_decision_uses_the_app_as_it_is_now(portal: Portal, consent: Consent) -> None:
    """A redirect URI that was removed before the person decided gets no redirect."""
    _, visitor = await new_person(portal)
    form = await visitor.form(connect_path(consent), "Allow")
    await consent.database.write(
        lambda transaction: remove_address(
            transaction, consent.app, REDIRECT_URI_STATEMENTS, REDIRECT_URI
        )
    )

    answer = await visitor.post(form.action, form.fields | {"decision": "allow"})

    assert answer.status_code == 400
    assert await count_codes(consent) == 0


async def test_the_page_cannot_be_framed(portal: Portal, consent: Consent) -> None:
    """No site may show the page inside its own."""
    _, visitor = await new_person(portal)

    policy = (await visitor.get(connect_path(consent))).headers["Content-Security-Policy"]

    assert "frame-ancestors 'none'" in policy


@pytest.mark.parametrize(
    ("redirect_uri", "allowed"),
    [
        ("https://shop.example/return", "form-action 'self' https:"),
        ("http://[::1]:8080/return", "form-action 'self' https: http:"),
        ("HTTP://[::1]:8080/return", "form-action 'self' https: http:"),
    ],
)
async def test_the_policy_allows_the_app_s_own_redirects(
    portal: Portal, database: Database, redirect_uri: str, allowed: str
) -> None:
    """The policy names schemes: without encryption only where the redirect URI is so, too."""
    consent = await Consent.of_new_people(database, redirect_uris=[redirect_uri])
    _, visitor = await new_person(portal)

    page = await visitor.get(connect_path(consent, redirect_uri=redirect_uri))

    assert page.headers["Content-Security-Policy"].endswith(f"; {allowed}")


async def test_the_page_says_who_asks_for_what_until_when(
    portal: Portal, database: Database
) -> None:
    """The app, its owner, each scope in words, the moment of the end, the exact way back."""
    redirect_uri = "https://shop.example/return/here?lane=3&a=%3Cb%3E"
    consent = await Consent.of_new_people(database, redirect_uris=[redirect_uri])
    owner = await database.read(
        lambda transaction: account_by_id(transaction, consent.app.account_id)
    )
    username, visitor = await new_person(portal)

    html = (
        await visitor.get(connect_path(consent, redirect_uri=redirect_uri, scope="profile balance"))
    ).text
    words = text_of(html)

    assert f"{consent.app.name} wants to read your account" in words
    assert f"{consent.app.name}, an app by {owner.display_name} @{owner.username}" in words
    assert f"Your account @{username}" in words
    assert "Your profile: name, username, account number, email, and when you joined" in words
    assert "Your balance" in words
    assert "It cannot move money or change anything." in words
    assert f"Whether you allow or deny this, you return to {redirect_uri}" in words
    until = timestamp(portal.clock() + 30 * 24 * 3600 * MICROS_PER_SECOND)
    assert f'datetime="{until}"' in html


async def test_names_are_escaped(portal: Portal, consent: Consent) -> None:
    """An app's name cannot inject markup into the page."""
    _, visitor = await new_person(portal)
    name = "<script>alert(1)</script>"
    await consent.database.write(lambda transaction: rename_app(transaction, consent.app, name))

    page = (await visitor.get(connect_path(consent))).text

    assert name not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
