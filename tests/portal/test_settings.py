"""Settings: sessions, the password and two-factor sign-in."""

import re

import pytest

from ousel.database.port import Database
from ousel.kernel.clock import system_clock
from ousel.people.rules import PAIR_LIMIT, provisioning_uri
from ousel.sandbox.clock import SandboxClock
from ousel.site.qr_codes import qr_code
from tests.support.portal import Portal, open_portal
from tests.support.visitor import PASSWORD, SAFARI, Visitor, secret_of

NEW_PASSWORD = "a better horse battery"


async def other_sessions(visitor: Visitor) -> list[str]:
    """Return the names of the sessions that the settings offer to end."""
    page = (await visitor.get("/settings")).text
    return re.findall(r'name="session" value="([0-9a-f]+)"', page)


async def end_session(visitor: Visitor, session: str) -> None:
    """Press the button that ends this session."""
    token = (await visitor.form("/settings", "Change password")).fields["form_token"]
    fields = {"form_token": token, "session": session}
    answer = await visitor.post("/settings/sessions/end", fields)
    assert answer.headers["location"] == "/settings?done=session"


async def test_each_session_is_listed_and_can_be_ended(portal: Portal, ada: Visitor) -> None:
    """From one browser another is signed out; its cookie opens nothing from then on."""
    phone = portal.visitor("198.51.100.7", SAFARI)
    await phone.sign_in("ada")
    page = (await ada.get("/settings")).text
    assert "Safari on iPhone" in page
    assert "198.51.100.7" in page
    assert page.count("this session") == 1
    (session,) = await other_sessions(ada)
    await end_session(ada, session)
    assert not await phone.is_signed_in()
    assert await ada.is_signed_in()


async def test_without_mail_the_settings_promise_no_messages(ada: Visitor) -> None:
    """They lead to the events instead, and there is nothing to choose."""
    page = (await ada.get("/settings")).text
    assert "This server sends no mail." in page
    assert "send a message" not in page
    assert 'name="money"' not in page


async def test_nobody_ends_anothers_session(portal: Portal, ada: Visitor) -> None:
    """The name of a session counts only for its own account."""
    eve = await portal.person("eve", "203.0.113.5")
    second = portal.visitor("198.51.100.7", SAFARI)
    await second.sign_in("ada")
    (session,) = await other_sessions(ada)
    await end_session(eve, session)
    assert await second.is_signed_in()
    assert "Session signed out" not in (await eve.get("/settings/history")).text


async def test_a_changed_password_signs_the_others_out(portal: Portal, ada: Visitor) -> None:
    """This browser stays; the other one is asked to sign in, with the new password."""
    phone = portal.visitor("198.51.100.7", SAFARI)
    await phone.sign_in("ada")
    changed = await ada.press(
        "/settings", "Change password", current_password=PASSWORD, new_password=NEW_PASSWORD
    )
    assert changed.headers["location"] == "/settings?done=password"
    assert "Your password has been changed" in (await ada.get("/settings?done=password")).text
    assert not await phone.is_signed_in()
    assert (await phone.sign_in("ada")).status_code == 400
    assert (await phone.sign_in("ada", NEW_PASSWORD)).status_code == 303


async def test_a_wrong_password_is_reported_at_its_field(ada: Visitor) -> None:
    """Which of the two fields is wrong stands beside it; what was typed does not come back."""
    for current, new, field in (
        ("wrong horse battery", NEW_PASSWORD, "current_password"),
        (PASSWORD, "short", "new_password"),
    ):
        page = await ada.press(
            "/settings", "Change password", current_password=current, new_password=new
        )
        assert page.status_code == 400
        assert f'id="{field}-error"' in page.text
        assert current not in page.text


async def test_two_factor_is_turned_on_used_and_turned_off(portal: Portal, ada: Visitor) -> None:
    """On: a code is asked for at sign-in, and recovery codes are counted; off: it is not."""
    secret, codes = await portal.turn_on_factor(ada)
    assert len(codes) == 10
    settings = (await ada.get("/settings")).text
    assert "10 recovery codes are left" in settings
    assert "Turn off or move to another phone" in settings  # this is what the page can do
    phone = portal.visitor("198.51.100.7", SAFARI)
    asked = await phone.sign_in("ada")
    assert asked.headers["location"] == "/login/code"
    assert not await phone.is_signed_in()
    await phone.press("/login/code", "Continue", code=codes[0])
    assert await phone.is_signed_in()
    assert "9 recovery codes are left" in (await ada.get("/settings")).text
    page = (await ada.get("/settings/two-factor")).text
    assert secret not in page
    assert "data:image/svg" not in page
    wrong = await ada.press("/settings/two-factor", "Turn off", code="000000")
    assert (wrong.status_code, 'id="code-error"' in wrong.text) == (400, True)
    off = await ada.press("/settings/two-factor", "Turn off", code=portal.code(secret))
    assert off.headers["location"] == "/settings?done=two-factor-off"
    assert (await portal.visitor().sign_in("ada")).headers["location"] == "/activity"


async def test_an_authenticator_app_shows_the_host_of_the_server(ada: Visitor) -> None:
    """The QR code contains the name that the page tells, so nobody confuses two servers."""
    page = (await ada.get("/settings/two-factor")).text
    secret = secret_of(page, "factor-secret")
    assert qr_code(provisioning_uri(secret, "ada", "Ousel (ousel.test)")) in page
    assert "the app shows for Ousel (ousel.test)" in page


@pytest.mark.slow
@pytest.mark.parametrize("ended_by", ["a new password", "its owner", "itself", "nobody"])
async def test_a_second_factor_that_another_session_has_seen_is_replaced(
    portal: Portal, ada: Visitor, ended_by: str
) -> None:
    """The secret that it saw is not the one turned on afterwards, whether it has ended or not."""
    stranger = portal.visitor("198.51.100.7", SAFARI)
    await stranger.sign_in("ada")
    seen = secret_of((await stranger.get("/settings/two-factor")).text, "factor-secret")
    if ended_by == "a new password":
        await ada.press(
            "/settings", "Change password", current_password=PASSWORD, new_password=NEW_PASSWORD
        )
    elif ended_by == "itself":
        await stranger.press("/settings", "Sign out")
    elif ended_by == "its owner":
        (session,) = await other_sessions(ada)
        await end_session(ada, session)
    assert await stranger.is_signed_in() == (ended_by == "nobody")

    secret, _ = await portal.turn_on_factor(ada)

    assert seen
    assert secret != seen


async def test_codes_follow_the_real_clock_in_a_sandbox_that_is_ahead(
    database: Database, database_url: str
) -> None:
    """A phone does not follow a sandbox's clock, and its codes work all the same."""
    await SandboxClock(database, system_clock).advance(7_200)
    async with open_portal(database_url, sandbox=True) as portal:
        ada = await portal.person("ada")
        secret, _ = await portal.turn_on_factor(ada)
        phone = portal.visitor()
        await phone.sign_in("ada")
        signed_in = await phone.press("/login/code", "Continue", code=portal.code(secret))
        assert signed_in.status_code == 303, signed_in.text
        assert await phone.is_signed_in()


async def test_guessing_codes_is_limited(portal: Portal, ada: Visitor) -> None:
    """After ten wrong codes a page says when to go on, though the next code be right."""
    secret, _ = await portal.turn_on_factor(ada)
    guesser = portal.visitor("203.0.113.9")
    await guesser.sign_in("ada")
    statuses = [
        (await guesser.press("/login/code", "Continue", code=f"{number:06d}")).status_code
        for number in range(12)
    ]
    assert statuses == [400] * 10 + [429] * 2
    limited = await guesser.press("/login/code", "Continue", code=portal.code(secret))
    assert (limited.status_code, limited.headers["retry-after"]) == (429, "86400")
    assert "Try again in 24 hours." in limited.text


async def test_advancing_a_sandbox_s_clock_allows_no_more_guesses(
    database: Database, database_url: str
) -> None:
    """A partner's key can advance the clock; that must not allow unlimited guesses."""
    async with open_portal(database_url, sandbox=True) as portal:
        await portal.person("ada")
        guesser = portal.visitor("198.51.100.7")
        for _ in range(PAIR_LIMIT.attempts_max):
            await guesser.sign_in("ada", "wrong horse battery")
    await SandboxClock(database, system_clock).advance(PAIR_LIMIT.window_seconds)
    async with open_portal(database_url, sandbox=True) as later:
        refused = await later.visitor("198.51.100.7").sign_in("ada")

    assert refused.status_code == 429
