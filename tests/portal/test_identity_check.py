"""Pages ask again for the password, a code or a passkey before what matters, and continue."""

import re
from collections.abc import Awaitable, Callable

import httpx2
import pytest

from ousel.people.rules import IDENTITY_CHECK_SECONDS, PAIR_LIMIT
from tests.support.accounts import balance, person
from tests.support.engines import ENGINES
from tests.support.forms import form_with
from tests.support.portal import Portal, open_portal
from tests.support.visitor import PASSWORD, Visitor, secret_of, shown_key

NEW_PASSWORD = "a better horse battery"
ASKED = "Confirm that it is you"


def is_asked(answer: httpx2.Response) -> bool:
    """Return whether this page asks who the person is."""
    return answer.status_code == 403 and ASKED in answer.text


async def answer_with(visitor: Visitor, asked: httpx2.Response, **fields: str) -> httpx2.Response:
    """Fill in the page that asks, and continue."""
    assert is_asked(asked), asked.text
    form = form_with(asked.text, "Continue")
    return await visitor.send(form, form.pressed("Continue", fields))


def without_seeds(page: httpx2.Response) -> str:
    """Return an app's page without the seeds of its forms, which are new each time."""
    return re.sub(r'value="fs_\w+"', "", page.text)


def wait(portal: Portal) -> None:
    """Let the last check become too old."""
    portal.clock.advance(seconds=IDENTITY_CHECK_SECONDS)


class Partner:
    """Ada with two-factor sign-in, an app and a key, whose last check is too old."""

    def __init__(self, portal: Portal, visitor: Visitor, secret: str, app: str) -> None:
        self.portal = portal
        self.visitor = visitor
        self.app = app
        self._secret = secret

    @property
    def code(self) -> str:
        return self.portal.code(self._secret)


@pytest.fixture
async def partner(mailing: Portal) -> Partner:
    """Ada, whose last check is too old."""
    ada = await mailing.person("ada")
    secret, _ = await mailing.turn_on_factor(ada)
    app = await ada.create_app()
    await ada.issue_key(app, "first")
    wait(mailing)
    return Partner(mailing, ada, secret, app)


async def issue(partner: Partner) -> httpx2.Response:
    return await partner.visitor.press(partner.app, "Issue key", key_name="second")


async def rotate(partner: Partner) -> httpx2.Response:
    return await partner.visitor.press(partner.app, "Rotate", overlap="3600")


async def change_password(partner: Partner) -> httpx2.Response:
    fields = {"current_password": PASSWORD, "new_password": NEW_PASSWORD}
    return await partner.visitor.press("/settings", "Change password", **fields)


async def change_email(partner: Partner) -> httpx2.Response:
    fields = {"email": "new@example.com", "password": PASSWORD}
    return await partner.visitor.press("/settings/email", "Change email", **fields)


async def was_issued(partner: Partner, done: httpx2.Response) -> bool:
    assert (await partner.portal.call("/me", shown_key(done))).status_code == 200
    return "second" in done.text


async def was_rotated(partner: Partner, done: httpx2.Response) -> bool:
    assert (await partner.portal.call("/me", shown_key(done))).status_code == 200
    return done.text.count("ends</span>") == 1


async def has_new_password(partner: Partner, done: httpx2.Response) -> bool:
    signed_in = await partner.portal.visitor("192.0.2.9").sign_in("ada", NEW_PASSWORD)
    return done.headers["location"] == "/settings?done=password" and signed_in.status_code == 303


async def was_mailed(partner: Partner, done: httpx2.Response) -> bool:
    return done.status_code == 303 and len(await partner.portal.mail("new@example.com")) == 1


Action = Callable[[Partner], Awaitable[httpx2.Response]]
Check = Callable[[Partner, httpx2.Response], Awaitable[bool]]
ACTIONS: tuple[tuple[Action, str, Check], ...] = (
    (issue, "To issue the key “second”", was_issued),
    (rotate, "To rotate a key", was_rotated),
    (change_password, "To change your password", has_new_password),
    (change_email, "To change your email", was_mailed),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "purpose", "is_done"), ACTIONS, ids=["issue", "rotate", "password", "email"]
)
async def test_an_action_asks_for_a_code_and_then_continues(
    partner: Partner, act: Action, purpose: str, is_done: Check
) -> None:
    """Nothing happens before the right code; then all that was typed takes effect, once.

    The page that asks says for what, also after a wrong code.
    """
    before = await partner.visitor.get(partner.app)
    asked = await act(partner)
    assert is_asked(asked)
    assert purpose in asked.text
    assert "location" not in asked.headers
    assert not await partner.portal.mail("new@example.com")
    wrong = await answer_with(partner.visitor, asked, identity_code="000000")
    assert is_asked(wrong)
    assert "This code is not right." in wrong.text
    assert purpose in wrong.text
    unchanged = await partner.visitor.get(partner.app)
    assert without_seeds(unchanged) == without_seeds(before)

    done = await answer_with(partner.visitor, wrong, identity_code=partner.code)

    assert await is_done(partner, done)
    assert not is_asked(await issue(partner))  # the check counts for what follows


async def test_a_form_with_a_code_that_is_sent_twice_takes_effect_once(partner: Partner) -> None:
    """A reload shows the same key again, and the code that was used up is no failed attempt."""
    asked = await issue(partner)
    form = form_with(asked.text, "Continue")
    fields = form.pressed("Continue", {"identity_code": partner.code})
    first, second = [await partner.visitor.send(form, fields) for _ in range(2)]

    assert shown_key(first) == shown_key(second)
    assert "Failed attempt" not in (await partner.visitor.get("/settings/history")).text


async def test_turning_a_factor_on_asks_for_the_password(portal: Portal, ada: Visitor) -> None:
    """Before the secret is shown, and again before it is accepted if that is later."""
    shown = secret_of((await ada.get("/settings/two-factor")).text, "factor-secret")
    typed = await ada.form("/settings/two-factor", "Turn on")
    wait(portal)

    page = await ada.get("/settings/two-factor")
    assert is_asked(page)
    assert shown not in page.text
    late = await ada.send(typed, typed.pressed("Turn on", {"code": portal.code(shown)}))
    assert is_asked(late)
    again = await answer_with(ada, page, identity_password="wrong horse battery")
    for each in (page, late, again):
        assert is_asked(each)
        assert "To set up an authenticator app" in each.text
    back = await answer_with(ada, page, identity_password=PASSWORD)
    assert back.headers["location"] == "/settings/two-factor"
    assert shown in (await ada.get(back.headers["location"])).text

    done = await answer_with(ada, late, identity_password=PASSWORD)
    assert "Recovery codes" in done.text


async def test_without_a_factor_a_page_that_asks_for_the_password_asks_once(
    portal: Portal, ada: Visitor
) -> None:
    """The password in the form is the check."""
    wait(portal)
    fields = {"current_password": PASSWORD, "new_password": NEW_PASSWORD}
    changed = await ada.press("/settings", "Change password", **fields)
    assert changed.headers["location"] == "/settings?done=password"


async def test_a_sandbox_issues_test_keys_without_asking(sandbox: Portal) -> None:
    """A test key moves no real money."""
    ada = await sandbox.person("ada")
    app = await ada.create_app()
    wait(sandbox)
    assert await ada.issue_key(app)


async def test_guesses_on_the_page_are_limited(portal: Portal, ada: Visitor) -> None:
    """They count together with failed sign-ins."""
    wait(portal)
    page = await ada.get("/settings/two-factor")
    for _ in range(PAIR_LIMIT.attempts_max):
        assert is_asked(await answer_with(ada, page, identity_password="wrong horse battery"))
    assert (await answer_with(ada, page, identity_password=PASSWORD)).status_code == 429


async def test_the_page_leads_only_to_pages_of_this_site(ada: Visitor) -> None:
    """A forged form field does not lead to another site."""
    token = (await ada.form("/settings", "Change password")).fields["form_token"]
    for target in ("https://evil.example/", "//evil.example/", "/\\evil.example"):
        answer = await ada.post("/confirm-identity", {"form_token": token, "next": target})
        assert answer.headers["location"] == "/activity"


@pytest.mark.parametrize("engine", ENGINES)
async def test_sending_over_the_limit_asks_and_sends_once(database_url: str) -> None:
    """At the limit it does not ask; over it, the money moves after the password, only once."""
    async with open_portal(database_url, confirm_sending_over=25_000_000) as portal:
        ada = await portal.person("ada")
        grace = await person(portal.database, "grace", clock=portal.clock)
        await person(portal.database, "bank", "1000", portal.clock)
        await portal.fund("ada", "100")
        wait(portal)

        assert (await send(ada, "25.00")).status_code == 303
        asked = await send(ada, "25.000001")
        assert "To send 25.000001 OUSD" in asked.text
        wrong = await answer_with(ada, asked, identity_password="wrong horse battery")
        assert await balance(portal.database, grace) == 25_000_000
        sent = [await answer_with(ada, each, identity_password=PASSWORD) for each in (wrong, asked)]

        assert [each.status_code for each in sent] == [303, 303]
        first, second = [each.headers["location"] for each in sent]
        assert second == first.replace("done=sent", "done=sent-earlier")
        assert await balance(portal.database, grace) == 50_000_001


async def send(visitor: Visitor, amount: str) -> httpx2.Response:
    """Send this amount to Grace."""
    checked = await visitor.press("/send", "Continue", to="@grace", amount=amount)
    return await visitor.press(checked.headers["location"], f"Send {amount} OUSD")


async def test_the_rule_for_amounts_is_shown(portal: Portal, ada: Visitor) -> None:
    """The form states the limit, and the page before the check announces it."""
    await person(portal.database, "grace", clock=portal.clock)
    await portal.fund("ada", "2000")
    announced = "Next, we ask for your password, code or passkey"
    assert "more than 1,000.00 OUSD" in (await ada.get("/send")).text
    asked = await ada.press("/send", "Continue", to="@grace", amount="1000.01")
    assert announced not in (await ada.get(asked.headers["location"])).text
    wait(portal)
    assert announced in (await ada.get(asked.headers["location"])).text
