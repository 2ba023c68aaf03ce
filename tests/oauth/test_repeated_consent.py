"""An app that is connected already: consent again, the connections page, disconnecting."""

from urllib.parse import parse_qs, urlsplit

import pytest

from ousel.accounts.service import find_account
from ousel.database.port import Database
from ousel.kernel.clock import MICROS_PER_SECOND, timestamp
from ousel.oauth.rules import TOKEN_SECONDS
from tests.oauth.consent_steps import connect_app, connect_path, count_codes, decide, new_person
from tests.oauth.consents import REDIRECT_URI, Consent, bearer
from tests.support.accounts import app_with_key
from tests.support.portal import Portal, open_portal
from tests.support.visitor import Visitor

pytestmark = pytest.mark.one_engine

PROFILE = "Your profile: name"
BALANCE = "Your balance"
NEW = '<span class="tag note">new</span>'


@pytest.mark.parametrize("extra", [{}, {"prompt": "none"}, {"approval_prompt": "auto"}])
async def test_a_connected_app_needs_consent_again(
    portal: Portal, consent: Consent, extra: dict[str, str]
) -> None:
    """It takes one click, says since when the app is connected, and never happens silently."""
    _, visitor = await new_person(portal)
    await connect_app(portal, consent, visitor)
    codes = await count_codes(consent)

    page = await visitor.get(connect_path(consent, **extra))
    after_the_page = await count_codes(consent)
    answer = await decide(visitor, connect_path(consent, **extra), "Allow")

    assert page.status_code == 200
    assert "It has been connected since" in page.text
    assert "It asks for nothing new." in page.text
    assert NEW not in page.text
    assert after_the_page == codes
    assert "code=ac_" in answer.headers["location"]


async def test_new_scopes_are_marked_on_the_page(portal: Portal, consent: Consent) -> None:
    """A scope that the app cannot read yet is marked, and read only once it is allowed."""
    _, visitor = await new_person(portal)
    api = portal.visitor().client
    first = await connect_app(portal, consent, visitor, scope="profile")

    page = (await visitor.get(connect_path(consent, scope="profile balance"))).text
    refused = await api.get("/v1/user/balance", headers=bearer(first))
    second = await connect_app(portal, consent, visitor, scope="profile balance")
    read = await api.get("/v1/user/balance", headers=bearer(second))
    still_refused = await api.get("/v1/user/balance", headers=bearer(first))

    assert "Now it asks to read more." in page
    assert f"<li>{BALANCE} {NEW}</li>" in page
    assert page.count(NEW) == 1
    assert (refused.status_code, read.status_code) == (403, 200)
    assert still_refused.status_code == 403


async def test_scopes_granted_before_are_listed(portal: Portal, consent: Consent) -> None:
    """An app that asks for less than it has still has it, and the page says until when.

    Later consent to something else does not change that.
    """
    _, visitor = await new_person(portal)
    await connect_app(portal, consent, visitor, scope="balance")
    first_end = timestamp(portal.clock() + TOKEN_SECONDS * MICROS_PER_SECOND)
    portal.clock.advance(seconds=3600)
    await connect_app(portal, consent, visitor, scope="profile")

    page = (await visitor.get(connect_path(consent, scope="profile"))).text
    besides = page.partition("It can already read this:")[2]

    assert f"<li>{BALANCE}<br>" in besides
    assert first_end in besides.partition("</ul>")[0]
    assert first_end in (await visitor.get("/connections")).text
    assert PROFILE not in besides


async def test_a_connection_is_shown_and_ended(portal: Portal, consent: Consent) -> None:
    """What can be read, since when, and the last use; ended with one click, dead at once."""
    _, visitor = await new_person(portal)
    api = portal.visitor().client
    token = await connect_app(portal, consent, visitor, scope="profile balance")
    since = timestamp(portal.clock())

    listed = (await visitor.get("/connections")).text
    ended = await visitor.press("/connections", "Disconnect")
    after = await visitor.get(ended.headers["location"])
    profile = await api.get("/v1/user/me", headers=bearer(token))
    history = await visitor.get("/settings/history")

    for words in (consent.app.name, PROFILE, BALANCE, f'datetime="{since}"', "never"):
        assert words in listed
    assert ended.headers["location"] == "/connections?done=disconnected"
    assert "is disconnected" in after.text
    assert consent.app.name not in after.text
    assert profile.status_code == 401
    assert history.text.count(consent.app.name) == 2


async def test_the_last_use_is_shown(database_url: str, portal: Portal, consent: Consent) -> None:
    """The moment at which a token was last used stands there once it is written down."""
    _, visitor = await new_person(portal)
    token = await connect_app(portal, consent, visitor)

    async with open_portal(database_url) as elsewhere:
        elsewhere.clock.advance(seconds=90)
        await elsewhere.visitor().client.get("/v1/user/me", headers=bearer(token))
        used = timestamp(elsewhere.clock())
    listed = (await visitor.get("/connections")).text

    assert f'datetime="{used}"' in listed
    assert "never" not in listed


async def test_a_person_can_end_only_their_own_connections(
    portal: Portal, consent: Consent
) -> None:
    """Disconnecting an app that is not connected does nothing, also to somebody else's."""
    first_name, first = await new_person(portal)
    _, second = await new_person(portal)
    token = await connect_app(portal, consent, first)

    form = await first.form("/connections", "Disconnect")
    own_token = (await second.form("/settings", "Sign out")).fields["form_token"]
    other = await second.post(form.action, {"form_token": own_token})
    profile = await portal.visitor().client.get("/v1/user/me", headers=bearer(token))

    assert other.headers["location"] == "/connections?done=disconnected"
    assert profile.json()["username"] == first_name
    assert "No app can read your account" in (await second.get("/connections")).text


async def test_an_app_that_has_not_used_its_code_yet_can_be_disconnected(
    portal: Portal, consent: Consent
) -> None:
    """It is listed as soon as it is allowed; once it is disconnected, its code gives no token."""
    _, visitor = await new_person(portal)
    allowed = await decide(visitor, connect_path(consent), "Allow")
    code = parse_qs(urlsplit(allowed.headers["location"]).query)["code"][0]

    ended = await visitor.press("/connections", "Disconnect")
    late = await portal.visitor().client.post("/v1/oauth/token", json=consent.exchange(code))

    assert ended.headers["location"] == "/connections?done=disconnected"
    assert "No app can read your account" in (await visitor.get("/connections")).text
    assert late.json()["error"] == "invalid_grant"


async def test_the_app_page_counts_connected_people(portal: Portal, database: Database) -> None:
    """People are counted once each, and no more from the moment they disconnect."""
    owner, consent = await _owner_with_app(portal, database)
    (_, first), (_, second) = await new_person(portal), await new_person(portal)
    page = f"/apps/{consent.app.id}"

    nobody = (await owner.get(page)).text
    await connect_app(portal, consent, first)
    one = (await owner.get(page)).text
    await connect_app(portal, consent, first)
    await connect_app(portal, consent, second)
    two = (await owner.get(page)).text
    await first.press("/connections", "Disconnect")
    left = (await owner.get(page)).text

    assert "0 people are connected to this app." in nobody
    assert "1 person is connected to this app." in one
    assert "2 people are connected to this app." in two
    assert "1 person is connected to this app." in left


async def _owner_with_app(portal: Portal, database: Database) -> tuple[Visitor, Consent]:
    """Return someone who has signed up, with an app."""
    username, owner = await new_person(portal)
    account = await database.read(
        lambda transaction: find_account(transaction, f"@{username}", param="to")
    )
    app, key = await app_with_key(database, account, redirect_uris=[REDIRECT_URI])
    return owner, Consent(database, app, key, account)
