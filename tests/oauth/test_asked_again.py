"""An app that is connected: asked again, seen under /connections, counted, and ended."""

import pytest

from ousel.accounts.service import find_account
from ousel.database.port import Database
from ousel.kernel.clock import timestamp
from tests.oauth.asking import address, codes_of, connected, decide, someone
from tests.oauth.consents import REDIRECT_URI, Consent, bearer
from tests.support.accounts import app_with_key
from tests.support.portal import Portal, open_portal
from tests.support.visitor import Visitor

PROFILE = "Your profile: name"
BALANCE = "Your balance"
NEW = '<span class="tag note">new</span>'


@pytest.mark.parametrize("extra", [{}, {"prompt": "none"}, {"approval_prompt": "auto"}])
async def test_what_was_granted_is_asked_again(
    portal: Portal, consent: Consent, extra: dict[str, str]
) -> None:
    """It takes one click, says since when the app is connected, and never happens silently."""
    _, visitor = await someone(portal)
    await connected(portal, consent, visitor)
    codes = await codes_of(consent)

    page = await visitor.get(address(consent, **extra))
    after_the_page = await codes_of(consent)
    answer = await decide(visitor, address(consent, **extra), "Allow")

    assert page.status_code == 200
    assert "It has been connected since" in page.text
    assert "It asks for nothing new." in page.text
    assert NEW not in page.text
    assert after_the_page == codes
    assert "code=ac_" in answer.headers["location"]


async def test_more_is_asked_for_by_name(portal: Portal, consent: Consent) -> None:
    """A scope that the app cannot read yet is marked, and read only once it is allowed."""
    _, visitor = await someone(portal)
    api = portal.visitor().client
    first = await connected(portal, consent, visitor, scope="profile")

    page = (await visitor.get(address(consent, scope="profile balance"))).text
    refused = await api.get("/v1/user/balance", headers=bearer(first))
    second = await connected(portal, consent, visitor, scope="profile balance")
    read = await api.get("/v1/user/balance", headers=bearer(second))
    still_refused = await api.get("/v1/user/balance", headers=bearer(first))

    assert "Now it asks to read more." in page
    assert f"<li>{BALANCE} {NEW}</li>" in page
    assert page.count(NEW) == 1
    assert (refused.status_code, read.status_code) == (403, 200)
    assert still_refused.status_code == 403


async def test_what_it_can_read_besides_is_told(portal: Portal, consent: Consent) -> None:
    """An app that asks for less than it has still has it, and the page says so."""
    _, visitor = await someone(portal)
    await connected(portal, consent, visitor, scope="balance")

    page = (await visitor.get(address(consent, scope="profile"))).text
    besides = page.partition("It can already read this, until")[2]

    assert f"<li>{BALANCE}</li>" in besides
    assert PROFILE not in besides


async def test_a_connection_is_shown_and_ended(portal: Portal, consent: Consent) -> None:
    """What can be read, since when, and the last use; ended with one click, dead at once."""
    _, visitor = await someone(portal)
    api = portal.visitor().client
    token = await connected(portal, consent, visitor, scope="profile balance")
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
    _, visitor = await someone(portal)
    token = await connected(portal, consent, visitor)

    async with open_portal(database_url) as elsewhere:
        elsewhere.clock.advance(seconds=90)
        await elsewhere.visitor().client.get("/v1/user/me", headers=bearer(token))
        used = timestamp(elsewhere.clock())
    listed = (await visitor.get("/connections")).text

    assert f'datetime="{used}"' in listed
    assert "never" not in listed


async def test_only_one_s_own_connection_ends(portal: Portal, consent: Consent) -> None:
    """Disconnecting an app that is not connected is a 404, and nobody else's connection ends."""
    first_name, first = await someone(portal)
    _, second = await someone(portal)
    token = await connected(portal, consent, first)

    form = await first.form("/connections", "Disconnect")
    own_token = (await second.form("/settings", "Sign out")).fields["form_token"]
    other = await second.post(form.action, {"form_token": own_token})
    profile = await portal.visitor().client.get("/v1/user/me", headers=bearer(token))

    assert other.status_code == 404
    assert profile.json()["username"] == first_name
    assert "No app can read your account" in (await second.get("/connections")).text


async def test_an_app_s_owner_sees_how_many_are_connected(
    portal: Portal, database: Database
) -> None:
    """People are counted once each, and no more from the moment they disconnect."""
    owner, consent = await _owner_with_app(portal, database)
    (_, first), (_, second) = await someone(portal), await someone(portal)
    page = f"/apps/{consent.app.id}"

    nobody = (await owner.get(page)).text
    await connected(portal, consent, first)
    one = (await owner.get(page)).text
    await connected(portal, consent, first)
    await connected(portal, consent, second)
    two = (await owner.get(page)).text
    await first.press("/connections", "Disconnect")
    left = (await owner.get(page)).text

    assert "Connected to this app: 0 people." in nobody
    assert "Connected to this app: 1 person." in one
    assert "Connected to this app: 2 people." in two
    assert "Connected to this app: 1 person." in left


async def _owner_with_app(portal: Portal, database: Database) -> tuple[Visitor, Consent]:
    """Return someone who has signed up, with an app."""
    username, owner = await someone(portal)
    account = await database.read(
        lambda transaction: find_account(transaction, f"@{username}", param="to")
    )
    app, key = await app_with_key(database, account, redirect_uris=[REDIRECT_URI])
    return owner, Consent(database, app, key, account)
