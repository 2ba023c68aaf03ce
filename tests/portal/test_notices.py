"""Notices by mail of what people do on pages, and the page on which they are turned off."""

import pytest

from ousel.accounts.service import AccountService
from tests.portal.test_history import BACK, connect, events_of
from tests.support.accounts import person
from tests.support.portal import Portal
from tests.support.visitor import SAFARI, Visitor

ADA = "ada@example.com"
GRACE = "grace@example.com"


@pytest.fixture
async def ada(sandbox: Portal) -> Visitor:
    """Ada, who has confirmed her email in a sandbox."""
    visitor = await sandbox.person("ada")
    await AccountService(sandbox.database, sandbox.clock).confirm_email("@ada")
    return visitor


async def notices(portal: Portal, email: str) -> dict[str, str]:
    """Return the notices to an address, by their subjects."""
    found = {each.subject: each.text for each in await portal.outbox.newest(email)}
    found.pop("Confirm your email", None)
    return found


async def send(ada: Visitor, amount: str, note: str = "") -> str:
    """Send money to Grace, and return the address of the confirmation page."""
    filled = {"to": "@grace", "amount": amount, "note": note}
    confirmation = (await ada.press("/send", "Continue", **filled)).headers["location"]
    sent = await ada.press(confirmation, f"Send {amount} OUSD")
    assert sent.status_code == 303, sent.text
    return str(confirmation)


async def test_keys_and_connected_apps_are_told(sandbox: Portal, ada: Visitor) -> None:
    """With the key's name and public handle, the app's name, and no secret."""
    app = await ada.create_app("Shop")
    key = await ada.issue_key(app, "server")
    await ada.press(app, "Add redirect URI", redirect_uri=BACK)
    await connect(ada, app.removeprefix("/apps/"), key)
    await ada.press(app, "Rotate", overlap="0")

    told = await notices(sandbox, ADA)
    assert told.keys() == {
        "A key was issued for your Ousel account",
        "A key of your Ousel account was rotated",
        "An app was connected to your Ousel account",
    }
    handle = key[: len("sk_test_") + 8]
    assert (
        f"The key “server” ({handle}…) was issued."
        in told["A key was issued for your Ousel account"]
    )
    assert "Shop: profile" in told["An app was connected to your Ousel account"]
    assert not any(key in text for text in told.values())


async def test_an_app_is_told_again_only_if_it_can_read_more(sandbox: Portal, ada: Visitor) -> None:
    """An app that signs people in with Connect causes no mail each time, but an event."""
    app = await ada.create_app("Shop")
    await ada.press(app, "Add redirect URI", redirect_uri=BACK)
    page = f"/connect?client_id={app.removeprefix('/apps/')}&redirect_uri={BACK}&scope="
    for scope in ("profile", "profile", "balance%20profile", "balance"):
        sandbox.clock.advance(seconds=1)
        await ada.press(f"{page}{scope}", "Allow")

    mail = [each.text for each in await sandbox.outbox.newest(ADA) if "Shop: " in each.text]
    assert len(mail) == 2
    assert "Shop: balance profile" in mail[0]
    assert "Shop: profile" in mail[1]
    assert [event.kind for event in await events_of(sandbox, "ada")].count("app_connected") == 4


async def test_a_sign_in_with_another_browser_is_told(sandbox: Portal, ada: Visitor) -> None:
    """The browser with which the account was created is known."""
    await ada.press("/settings", "Sign out")
    assert (await ada.sign_in("ada")).status_code == 303
    assert await notices(sandbox, ADA) == {}
    await sandbox.visitor("203.0.113.66", SAFARI).sign_in("ada")
    told = await notices(sandbox, ADA)
    assert "Safari on iPhone, IP address 203.0.113.66" in told["New sign-in to your Ousel account"]


async def test_money_that_a_person_sends_is_told_once(sandbox: Portal, ada: Visitor) -> None:
    """However often the form is sent. The message does not contain the note of the sender."""
    await person(sandbox.database, "grace", clock=sandbox.clock)
    await sandbox.fund("ada", "100")
    confirmation = await send(ada, "25.00", note="Open https://evil.example")
    page = await ada.get(confirmation)
    assert "You have sent this already" in page.text

    mail = await sandbox.outbox.newest(GRACE)

    assert [each.subject for each in mail] == ["You have received 25.00 OUSD"]
    assert "@ada has sent 25.00 OUSD to your Ousel account @grace." in mail[0].text
    assert "evil" not in mail[0].text


async def test_notices_of_money_are_turned_off_in_the_settings(
    sandbox: Portal, ada: Visitor
) -> None:
    """And on again; the page shows which it is."""
    grace = await sandbox.person("grace")
    await AccountService(sandbox.database, sandbox.clock).confirm_email("@grace")
    await sandbox.fund("ada", "100")
    assert 'name="money" value="on" checked' in (await grace.get("/settings")).text
    token = (await grace.form("/settings", "Save")).fields["form_token"]

    done = await grace.post("/settings/notices", {"form_token": token})

    assert done.headers["location"] == "/settings?done=notices"
    page = (await grace.get(done.headers["location"])).text
    assert "Your choice is saved." in page
    assert 'name="money" value="on" checked' not in page
    await send(ada, "1.00")
    assert await notices(sandbox, GRACE) == {}

    await grace.press("/settings", "Save", money="on")
    await send(ada, "2.00")
    assert list(await notices(sandbox, GRACE)) == ["You have received 2.00 OUSD"]
