"""The pages for people who have forgotten their password."""

import pytest

from ousel.accounts.service import AccountService
from ousel.people.recovery import OperatorRecovery
from ousel.people.rules import MAIL_IP_ADDRESS_LIMIT
from tests.support.mail import link_in
from tests.support.portal import Portal
from tests.support.visitor import PASSWORD, Visitor

EMAIL = "grace@example.com"
NEW_PASSWORD = "a better horse battery"


@pytest.fixture
async def grace(sandbox: Portal) -> Visitor:
    """Grace, who has signed up in a sandbox and confirmed her email."""
    visitor = await sandbox.person("grace")
    await AccountService(sandbox.database, sandbox.clock).confirm_email("@grace")
    return visitor


async def ask_for_link(portal: Portal, name: str) -> str:
    """Ask for a link on the page that the sign-in page leads to; return the link's path."""
    portal.clock.advance(seconds=1)
    visitor = portal.visitor("203.0.113.5")
    assert 'href="/forgot">Forgot your password?' in (await visitor.get("/login")).text
    sent = await visitor.press("/forgot", "Send a link", identifier=name)
    assert (sent.status_code, sent.headers["location"]) == (303, "/forgot?done=sent")
    return link_in((await portal.mail(EMAIL))[0])


async def test_a_forgotten_password_is_replaced_by_a_link(sandbox: Portal, grace: Visitor) -> None:
    """Opening the link changes nothing; setting the password signs everybody out."""
    path = await ask_for_link(sandbox, "grace")
    phone = sandbox.visitor("203.0.113.5")
    for _ in range(2):
        page = (await phone.get(path)).text
        assert "@grace" in page
        assert "Connected apps stay connected" in page
    assert await grace.is_signed_in()

    done = await phone.press(path, "Set password", new_password=NEW_PASSWORD)

    assert (done.status_code, done.headers["location"]) == (303, "/login?done=password")
    assert "Your new password is set." in (await phone.get(done.headers["location"])).text
    assert not await grace.is_signed_in()
    assert not await phone.is_signed_in()
    assert (await phone.sign_in("grace")).status_code == 400
    assert (await phone.sign_in("grace", NEW_PASSWORD)).status_code == 303
    again = await phone.get(path)
    assert again.status_code == 400
    assert "was used before" in again.text
    assert "Send a link</button>" in again.text


async def test_asking_for_a_link_keeps_the_page_that_asked(sandbox: Portal, grace: Visitor) -> None:
    """Signing in from this page leads to the page that was asked for first."""
    assert await grace.is_signed_in()
    visitor = sandbox.visitor()
    wanted = "/login?next=/activity%3Fdirection%3Din"
    forgot = "/forgot?next=/activity%3Fdirection%3Din"
    assert f'href="{forgot}">Forgot your password?' in (await visitor.get(wanted)).text
    sent = await visitor.press(forgot, "Send a link", identifier="grace")
    assert f'href="{wanted}">Sign in</a>' in (await visitor.get(sent.headers["location"])).text
    entered = await visitor.sign_in("grace", page=wanted)
    assert entered.headers["location"] == "/activity?direction=in"


async def test_a_password_is_set_while_another_account_is_signed_in(
    sandbox: Portal, grace: Visitor
) -> None:
    """The page says that it is set, and offers to sign in with it."""
    path = await ask_for_link(sandbox, "grace")
    eve = await sandbox.person("eve")
    done = await eve.press(path, "Set password", new_password=NEW_PASSWORD)
    assert "Your new password is set." in (await eve.get(done.headers["location"])).text
    assert not await grace.is_signed_in()


async def test_the_answer_is_the_same_whether_the_account_exists(
    sandbox: Portal, grace: Visitor
) -> None:
    """Status, headers and page are the same for a person, nobody, and nonsense."""
    assert await grace.is_signed_in()
    answers = set()
    for name in ("grace", "@grace", EMAIL, "nobody", "nobody@example.com", "", "no such name"):
        visitor = sandbox.visitor("203.0.113.5")
        sent = await visitor.press("/forgot", "Send a link", identifier=name)
        page = await visitor.get(sent.headers["location"])
        form = await visitor.form("/forgot", "Send a link")
        text = page.text.replace(form.fields["form_token"], "")
        answers.add((sent.status_code, sent.headers["location"], page.status_code, text))
    assert len(answers) == 1


async def test_a_password_that_is_too_short_is_told_at_its_field(
    sandbox: Portal, grace: Visitor
) -> None:
    """The link goes on working."""
    path = await ask_for_link(sandbox, EMAIL)
    page = await grace.press(path, "Set password", new_password="short")
    assert (page.status_code, 'id="new_password-error"' in page.text) == (400, True)
    done = await grace.press(path, "Set password", new_password=NEW_PASSWORD)
    assert done.status_code == 303


async def test_a_link_that_was_never_issued_offers_a_new_one(sandbox: Portal) -> None:
    """Opening it and using it have the same answer; a form from elsewhere is refused."""
    visitor = sandbox.visitor()
    token = (await visitor.form("/forgot", "Send a link")).fields["form_token"]
    fields = {"token": f"rl_{'0' * 40}", "new_password": NEW_PASSWORD}
    opened = await visitor.get(f"/reset?token={fields['token']}")
    used = await visitor.post("/reset", fields | {"form_token": token})
    for page in (opened, used, await visitor.get("/reset")):
        assert page.status_code == 400
        assert "Send a link</button>" in page.text
    assert (await visitor.post("/reset", fields)).status_code == 403
    assert (await visitor.post("/forgot", {"identifier": "grace"})).status_code == 403


async def test_the_operators_link_turns_two_factor_sign_in_off(
    sandbox: Portal, grace: Visitor
) -> None:
    """The page says so before; afterwards the password is enough."""
    await sandbox.turn_on_factor(grace)
    operator = OperatorRecovery(sandbox.database, sandbox.clock, sandbox.outbox)
    link = await operator.issue_link(await operator.find("@grace"))
    path = link.removeprefix(sandbox.settings.portal_url)
    assert "two-factor sign-in will be turned off" in (await grace.get(path)).text
    await grace.press(path, "Set password", new_password=NEW_PASSWORD)
    signed_in = await sandbox.visitor().sign_in("grace", NEW_PASSWORD)
    assert signed_in.headers["location"] == "/activity"


async def test_a_link_by_mail_keeps_two_factor_sign_in(sandbox: Portal, grace: Visitor) -> None:
    """After the new password, the code is still needed."""
    secret, _ = await sandbox.turn_on_factor(grace)
    path = await ask_for_link(sandbox, "grace")
    assert "two-factor" not in (await grace.get(path)).text
    await grace.press(path, "Set password", new_password=NEW_PASSWORD)
    visitor = sandbox.visitor()
    owed = await visitor.sign_in("grace", NEW_PASSWORD)
    assert owed.headers["location"] == "/login/code"
    done = await visitor.press("/login/code", "Continue", code=sandbox.code(secret))
    assert done.headers["location"] == "/activity"


async def test_too_many_requests_are_refused_with_a_page(
    sandbox: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says how long to wait, and says the same to everybody."""
    limit = MAIL_IP_ADDRESS_LIMIT.__class__(2, MAIL_IP_ADDRESS_LIMIT.window_seconds)
    monkeypatch.setattr("ousel.people.attempts.MAIL_IP_ADDRESS_LIMIT", limit)
    visitor = sandbox.visitor()
    for _ in range(2):
        sent = await visitor.press("/forgot", "Send a link", identifier="nobody")
        assert sent.status_code == 303
    page = await visitor.press("/forgot", "Send a link", identifier="nobody")
    assert (page.status_code, page.headers["retry-after"]) == (429, "3600")


async def test_a_server_without_mail_says_so(portal: Portal, ada: Visitor) -> None:
    """No button promises a link, and a form that is sent all the same is refused."""
    page = (await ada.get("/forgot")).text
    assert "This server sends no mail" in page
    assert "Send a link</button>" not in page
    token = (await ada.form("/settings", "Change password")).fields["form_token"]
    refused = await ada.post("/forgot", {"form_token": token, "identifier": "ada"})
    assert refused.status_code == 400
    assert (await portal.visitor().sign_in("ada", PASSWORD)).status_code == 303
