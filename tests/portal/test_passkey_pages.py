"""Pages about passkeys: what they show, and what they refuse."""

import re
from collections.abc import AsyncIterator

import pytest

from ousel.people.rules import IDENTITY_CHECK_SECONDS
from tests.support.authenticator import Authenticator
from tests.support.portal import Portal, open_portal
from tests.support.visitor import Visitor

LIST = "/settings/passkeys"
SIGN_IN = "Sign in with a passkey"
ASKED = "Confirm that it is you"


@pytest.fixture
def phone() -> Authenticator:
    """Ada's phone, which knows the portal by its name."""
    return Authenticator("http://ousel.test", "ousel.test")


@pytest.fixture
async def numbered(database_url: str) -> AsyncIterator[Portal]:
    """A portal that is reached by an IP address."""
    async with open_portal(database_url, portal_url="http://192.0.2.80") as opened:
        yield opened


async def page_of_one(visitor: Visitor) -> str:
    """Return the path of the page of the first passkey."""
    return str(re.findall(rf'href="({LIST}/\w+)"', (await visitor.get(LIST)).text)[0])


async def test_the_first_passkey_brings_recovery_codes(ada: Visitor, phone: Authenticator) -> None:
    """They are shown once; a further passkey brings none."""
    first = await ada.use_passkey(LIST, "Add passkey", phone, name="Phone")
    assert "Recovery codes" in first.text
    second = await ada.use_passkey(
        LIST, "Add passkey", Authenticator("http://ousel.test", "ousel.test"), name="Key"
    )
    assert second.headers["location"] == f"{LIST}?done=added"
    settings = (await ada.get("/settings")).text
    assert "also needs a passkey or a recovery code. 10 recovery codes are left." in settings


async def test_a_first_passkey_that_is_sent_twice_says_how_to_get_recovery_codes(
    ada: Visitor, phone: Authenticator
) -> None:
    """Whoever reloads the page of the codes, or never got it, learns what to do."""
    form = await ada.form(LIST, "Add passkey")
    asked = await ada.post(f"{LIST}/options", {"form_token": form.fields["form_token"]})
    filled = form.fields | {"name": "Phone", "credential": phone.make(asked.json())}
    assert "Recovery codes" in (await ada.send(form, filled)).text

    again = await ada.send(form, filled)

    assert again.status_code == 400
    assert "not seen its recovery codes, remove the passkey and add it again" in again.text


async def test_the_name_is_suggested_and_checked(ada: Visitor, phone: Authenticator) -> None:
    """An invalid name is refused beside its field, when adding and when renaming."""
    form = await ada.form(LIST, "Add passkey")
    assert form.fields["name"] == "Firefox on Linux"
    refused = await ada.use_passkey(LIST, "Add passkey", phone, name=" ")
    assert refused.status_code == 400
    assert 'id="name-error"' in refused.text
    await ada.use_passkey(LIST, "Add passkey", phone)
    refused = await ada.press(await page_of_one(ada), "Rename", name="a" * 61)
    assert refused.status_code == 400
    assert 'id="name-error"' in refused.text


async def test_the_page_warns_before_the_last_factor_is_removed(
    portal: Portal, ada: Visitor, phone: Authenticator
) -> None:
    """With an authenticator app, the recovery codes stay."""
    await ada.use_passkey(LIST, "Add passkey", phone)
    page = await page_of_one(ada)
    assert "your only second factor" in (await ada.get(page)).text
    await portal.turn_on_factor(ada)
    assert "your only second factor" not in (await ada.get(page)).text


async def test_a_passkey_of_somebody_else_is_not_found(
    portal: Portal, ada: Visitor, phone: Authenticator
) -> None:
    """Its page, its name and its removal belong to its owner."""
    await ada.use_passkey(LIST, "Add passkey", phone)
    page = await page_of_one(ada)
    mallory = await portal.person("mallory")
    token = (await mallory.form(LIST, "Add passkey")).fields["form_token"]
    assert (await mallory.get(page)).status_code == 404
    for action in ("rename", "remove"):
        answer = await mallory.post(f"{page}/{action}", {"form_token": token, "name": "Mine"})
        assert answer.status_code == 404
    assert (await ada.get(page)).status_code == 200


async def test_signing_in_leads_back_and_knows_the_browser(
    portal: Portal, ada: Visitor, phone: Authenticator
) -> None:
    """The passkey opens the page that asked for it."""
    await ada.use_passkey(LIST, "Add passkey", phone)
    visitor = portal.visitor()
    entered = await visitor.use_passkey("/login?next=/apps", SIGN_IN, phone)
    assert entered.headers["location"] == "/apps"
    assert await visitor.is_signed_in()


async def test_a_refused_passkey_is_told_on_the_page_that_asked(
    portal: Portal, ada: Visitor, phone: Authenticator
) -> None:
    """On the sign-in page, and on the page after the password."""
    await ada.use_passkey(LIST, "Add passkey", phone)
    phone.origin = "https://evil.example"
    visitor = portal.visitor()
    refused = await visitor.use_passkey("/login", SIGN_IN, phone)
    assert (refused.status_code, "<h1>Sign in</h1>" in refused.text) == (400, True)
    assert "was not accepted" in refused.text
    await visitor.sign_in("ada")
    refused = await visitor.use_passkey("/login/code", "Use a passkey", phone)
    assert (refused.status_code, "<h1>Use your passkey</h1>" in refused.text) == (400, True)
    phone.origin = "http://ousel.test"
    entered = await visitor.use_passkey("/login/code", "Use a passkey", phone)
    assert entered.headers["location"] == "/activity"


async def test_challenges_need_the_token_of_a_form(portal: Portal) -> None:
    """Another site cannot make a browser ask for them; and some of them need more than that."""
    visitor = portal.visitor()
    token = {"form_token": (await visitor.form("/login", "Sign in")).fields["form_token"]}
    assert (await visitor.post("/login/passkey/options", {})).status_code == 403
    assert (await visitor.post("/login/passkey/options", token)).status_code == 200
    after_password = await visitor.post("/login/code/passkey/options", token)
    assert (after_password.status_code, list(after_password.json())) == (400, ["detail"])
    assert (await visitor.post(f"{LIST}/options", token)).status_code == 303


async def test_a_site_without_a_name_offers_no_passkeys(numbered: Portal) -> None:
    """The sign-in page is silent about them, and the settings say why."""
    visitor = await numbered.person("ada")
    assert "has no name" in (await visitor.get(LIST)).text
    assert SIGN_IN not in (await numbered.visitor().get("/login")).text
    token = (await visitor.form("/settings", "Change password")).fields["form_token"]
    refused = await visitor.post(f"{LIST}/options", {"form_token": token})
    assert "not an IP address" in refused.json()["detail"]


async def test_changing_passkeys_asks_again_who_the_person_is(
    portal: Portal, ada: Visitor, phone: Authenticator
) -> None:
    """A session that was opened long ago neither adds nor removes any, nor gets a challenge."""
    await ada.use_passkey(LIST, "Add passkey", phone)
    page = await page_of_one(ada)
    token = {"form_token": (await ada.form(LIST, "Add passkey")).fields["form_token"]}
    removal = await ada.form(page, "Remove passkey")
    portal.clock.advance(seconds=IDENTITY_CHECK_SECONDS)

    asked = await ada.get(LIST)
    assert (asked.status_code, ASKED in asked.text) == (403, True)
    assert "authenticator app if you have one" in asked.text
    assert "Reload" in (await ada.post(f"{LIST}/options", token)).json()["detail"]
    assert ASKED in (await ada.post(LIST, token | {"name": "Key", "credential": "{}"})).text
    assert ASKED in (await ada.send(removal, removal.fields)).text

    phone.origin = "https://evil.example"
    refused = await ada.use_passkey(LIST, "Use a passkey", phone, "/confirm-identity/options")
    assert (refused.status_code, "was not accepted" in refused.text) == (403, True)
    phone.origin = "http://ousel.test"
    done = await ada.use_passkey(LIST, "Use a passkey", phone, "/confirm-identity/options")
    assert done.headers["location"] == LIST
    assert (await ada.send(removal, removal.fields)).headers["location"] == f"{LIST}?done=removed"
