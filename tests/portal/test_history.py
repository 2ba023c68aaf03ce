"""Security events: every action, with its time, address and device."""

import re
from typing import get_args
from urllib.parse import parse_qs, urlsplit

import pytest

from ousel.accounts.service import find_account
from ousel.database.port import Transaction
from ousel.kernel.ids import DIGITS
from ousel.people import store
from ousel.people.account_settings import AFTER_ALL_EVENTS
from ousel.people.audit import EventKind
from ousel.people.recovery import OperatorRecovery
from ousel.people.rules import AuditEvent
from ousel.portal import settings
from tests.support.authenticator import Authenticator
from tests.support.mail import code_in
from tests.support.portal import Portal
from tests.support.visitor import PASSWORD, SAFARI, Visitor

NEW_PASSWORD = "a better horse battery"
BACK = "https://shop.example/back"


async def events_of(portal: Portal, username: str) -> list[AuditEvent]:
    """Return what happened to someone's account, newest first."""

    async def read(transaction: Transaction) -> list[AuditEvent]:
        account = await find_account(transaction, f"@{username}", param="to")
        return await store.events_before(transaction, account.id, AFTER_ALL_EVENTS, 100)

    return await portal.database.read(read)


async def use_apps(ada: Visitor) -> None:
    """Do everything that can be done to an app."""
    app = await ada.create_app("Shop")
    await ada.press(app, "Rename", name="Bookshop")
    await ada.press(app, "Add redirect URI", redirect_uri=BACK)
    await ada.press(app, "Add origin", origin="https://shop.example")
    await connect(ada, app.removeprefix("/apps/"), await ada.issue_key(app, "server"))
    assert (await ada.press("/connections", "Disconnect")).status_code == 303
    await ada.press(app, "Remove")
    await ada.press(app, "Remove")
    await ada.press(app, "Rotate", overlap="0")
    await ada.press_and_confirm(app, "Revoke")
    assert (await ada.press_and_confirm(app, "Delete app")).status_code == 303


async def connect(ada: Visitor, client_id: str, key: str) -> None:
    """Let the app read one's profile, as it asks to by its redirect."""
    page = f"/connect?client_id={client_id}&redirect_uri={BACK}&scope=profile"
    allowed = await ada.press(page, "Allow")
    code = parse_qs(urlsplit(allowed.headers["location"]).query)["code"][0]
    grant = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": BACK,
        "client_id": client_id,
        "client_secret": key,
    }
    assert (await ada.client.post("/v1/oauth/token", json=grant)).status_code == 200


async def use_settings(portal: Portal, ada: Visitor, secret: str, recovery_code: str) -> None:
    """Do everything that can be done to a sign-in."""
    await ada.press(
        "/settings", "Change password", current_password=PASSWORD, new_password=NEW_PASSWORD
    )
    other = portal.visitor("192.0.2.1")
    await other.sign_in("ada", "wrong horse battery")
    await other.sign_in("ada", NEW_PASSWORD)
    await other.press("/login/code", "Continue", code=recovery_code)
    page = (await ada.get("/settings")).text
    session = re.findall(r'name="session" value="([0-9a-f]+)"', page)[0]
    token = (await ada.form("/settings", "Change password")).fields["form_token"]
    await ada.post("/settings/sessions/end", {"form_token": token, "session": session})
    await ada.press("/settings/two-factor", "Turn off", code=portal.code(secret))
    await ada.press("/settings", "Sign out")


async def use_passkeys(ada: Visitor, other: Visitor) -> None:
    """Add a passkey, rename it, use a copy of it, and remove it."""
    phone = Authenticator("http://ousel.test", "ousel.test")
    await ada.use_passkey("/settings/passkeys", "Add passkey", phone, name="Phone")
    page = re.findall(
        r'href="(/settings/passkeys/\w+)"', (await ada.get("/settings/passkeys")).text
    )
    await ada.press(page[0], "Rename", name="Old phone")
    phone.counter = 9
    entered = await other.use_passkey("/login", "Sign in with a passkey", phone)
    assert entered.status_code == 303
    await other.press("/settings", "Sign out")
    phone.counter = 1
    refused = await other.use_passkey("/login", "Sign in with a passkey", phone)
    assert "copied" in refused.text
    assert (await ada.press(page[0], "Remove passkey")).status_code == 303


async def use_emails(portal: Portal, ada: Visitor) -> None:
    """Confirm the email, and change it."""
    [text] = await portal.mail("ada@example.com")
    await ada.press("/verify-email", "Confirm email", code=code_in(text))
    await ada.press("/settings/email", "Change email", email="new@ousel.test", password=PASSWORD)
    [text] = await portal.mail("new@ousel.test")
    await ada.press("/verify-email", "Confirm email", code=code_in(text))


async def recover(portal: Portal, ada: Visitor) -> None:
    """Set a new password, by a link from the operator."""
    operator = OperatorRecovery(portal.database, portal.clock, portal.outbox)
    link = await operator.issue_link(await operator.find("@ada"))
    path = link.removeprefix(portal.settings.portal_url)
    done = await ada.press(path, "Set password", new_password=PASSWORD)
    assert done.headers["location"] == "/login?done=password"


@pytest.mark.slow
async def test_everything_is_recorded_with_address_and_device(mailing: Portal) -> None:
    """Each kind of event there is happens, and its record says from where and by what."""
    portal = mailing
    ada = await portal.person("ada")
    await use_emails(portal, ada)
    secret, codes = await portal.turn_on_factor(ada)
    await use_apps(ada)
    await use_passkeys(ada, portal.visitor("192.0.2.1"))
    await use_settings(portal, ada, secret, codes[0])
    await recover(portal, ada)
    events = await events_of(portal, "ada")
    assert {event.kind for event in events} == set(get_args(EventKind))
    sources = {(event.ip_address, event.device): event.kind for event in events}
    assert sources.keys() == {("192.0.2.1", "Firefox on Linux"), ("", "Operator")}
    assert sources["", "Operator"] == "recovery_link_issued"
    details = {event.kind: event.detail for event in events}
    assert details["email_confirmed"] == "ada@example.com"
    assert details["email_changed"] == "new@ousel.test"
    assert details["app_renamed"] == "\u2068Shop\u2069 → \u2068Bookshop\u2069"
    assert details["app_deleted"] == "Bookshop"
    assert details["redirect_uri_added"] == details["redirect_uri_removed"] == BACK
    assert details["origin_removed"] == "https://shop.example"
    assert re.fullmatch(r"“server” \(sk_live_\w{8}…\)", details["key_issued"])
    assert re.fullmatch(r"“server” \(sk_live_\w{8}…\) → “server” .*", details["key_rotated"])
    assert details["sign_in_failed"] == "Wrong password"


async def test_events_are_shown_with_labels(portal: Portal) -> None:
    """Every kind of event has a name for people, and the page shows address and device."""
    assert set(settings.EVENT_LABELS) == set(get_args(EventKind))
    ada = await portal.person("ada")
    thief = portal.visitor("203.0.113.66", SAFARI)
    await thief.sign_in("ada", "wrong horse battery")
    for path in ("/settings", "/settings/history"):
        page = (await ada.get(path)).text
        for text in ("Failed attempt to sign in", "203.0.113.66", "Safari on iPhone"):
            assert text in page


def test_the_first_page_begins_after_every_event_id() -> None:
    """It is a letter after the last digit of ids, since collations sort other signs differently."""
    assert AFTER_ALL_EVENTS.removeprefix("ev_") == chr(ord(DIGITS[-1]) + 1)


async def test_the_history_can_be_paged_to_its_beginning(
    portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older pages follow until the account's first day; nothing is shown twice."""
    monkeypatch.setattr(settings, "EVENTS_SHOWN", 3)
    ada = await portal.person("ada")
    for number in range(7):
        portal.clock.advance(seconds=1)
        await ada.create_app(f"App {number}")
    path, shown = "/settings/history", []
    while path:
        page = (await ada.get(path)).text
        shown += re.findall(r"App \d|Account created", page)
        path = page.partition('class="button quiet" href="')[2].partition('"')[0]
    expected = [f"App {number}" for number in range(6, -1, -1)]
    assert [each for each in shown if each != "Account created"] == expected
    assert shown[-1] == "Account created"
    assert (await ada.get("/settings/history?before=%00")).status_code == 400
    assert (await ada.get("/settings/history?before=%C3%A4")).status_code == 404
