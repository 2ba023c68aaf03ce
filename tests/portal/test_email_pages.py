"""The pages on which people confirm their email and change it."""

import re

import pytest

from ousel.people.rules import MAIL_ACCOUNT_LIMIT
from tests.support.mail import code_in, link_in
from tests.support.portal import Portal
from tests.support.visitor import PASSWORD, Visitor

EMAIL = "grace@example.com"
NEW_EMAIL = "new@example.com"


@pytest.fixture
async def grace(sandbox: Portal) -> Visitor:
    """Grace, who has signed up in a sandbox."""
    return await sandbox.person("grace")


async def test_the_code_in_the_message_confirms_the_email(sandbox: Portal, grace: Visitor) -> None:
    """Settings and the page say so before and after."""
    before = (await grace.get("/settings")).text
    assert "not confirmed" in before
    page = (await grace.get("/verify-email")).text
    assert EMAIL in page
    assert 'href="/sandbox/mail?to=grace%40example.com"' in page
    [text] = await sandbox.mail(EMAIL)

    done = await grace.press("/verify-email", "Confirm email", code=code_in(text))

    assert (done.status_code, done.headers["location"]) == (303, "/verify-email?done=confirmed")
    page = (await grace.get(done.headers["location"])).text
    assert "<h1>Email confirmed</h1>" in page
    assert f"{EMAIL} is confirmed" in page
    assert '<a class="button wide" href="/activity">' in page  # what comes next
    assert "not confirmed" not in (await grace.get("/settings")).text
    assert (await sandbox.visitor().sign_in(EMAIL)).status_code == 303


async def test_opening_the_link_changes_nothing_until_the_button_is_pressed(
    sandbox: Portal, grace: Visitor
) -> None:
    """Programs that scan mail open links; a person confirms, signed in or not."""
    [text] = await sandbox.mail(EMAIL)
    path, phone = link_in(text), sandbox.visitor("203.0.113.5")
    for _ in range(2):
        page = (await phone.get(path)).text
        assert EMAIL in page
        assert "@grace" in page
    assert "not confirmed" in (await grace.get("/settings")).text

    done = await phone.press(path, "Confirm email")

    assert done.status_code == 303
    assert "The email is confirmed" in (await phone.get(done.headers["location"])).text
    assert "not confirmed" not in (await grace.get("/settings")).text
    again = await phone.get(path)
    assert (again.status_code, "was used before" in again.text) == (400, True)


async def test_a_link_for_another_account_says_that_it_worked(
    sandbox: Portal, grace: Visitor
) -> None:
    """Whoever is signed in: the page does not speak of their own email."""
    await sandbox.person("ada")
    [text] = await sandbox.mail("ada@example.com")

    done = await grace.press(link_in(text), "Confirm email")
    page = (await grace.get(done.headers["location"])).text

    assert "The email is confirmed" in page
    assert "another account than yours" in page
    assert EMAIL not in page
    assert 'href="/activity"' in page


async def test_a_change_that_fails_is_not_shown_as_a_success(
    sandbox: Portal, grace: Visitor
) -> None:
    """After the last try, the page says that the old email stays, and where to begin again."""
    [text] = await sandbox.mail(EMAIL)
    await grace.press("/verify-email", "Confirm email", code=code_in(text))
    sandbox.clock.advance(seconds=1)
    await grace.press("/settings/email", "Change email", email=NEW_EMAIL, password=PASSWORD)
    [text] = await sandbox.mail(NEW_EMAIL)
    page = await grace.get("/verify-email")
    for _ in range(5):
        other = f"{(int(code_in(text)) + 1) % 1_000_000:06d}"
        page = await grace.press("/verify-email", "Confirm email", code=other)

    assert page.status_code == 400
    assert "Nothing to confirm" in page.text
    assert "was the last try" in page.text
    assert EMAIL in page.text
    assert 'href="/settings/email"' in page.text
    assert "is confirmed" not in page.text
    form = await grace.form("/settings/email", "Change email")
    late = await grace.post("/verify-email/send", form.fields)
    assert late.status_code == 400
    assert "Nothing to confirm" in late.text


async def test_a_form_from_elsewhere_confirms_nothing(sandbox: Portal, grace: Visitor) -> None:
    """Neither the link nor the code is accepted without the token of the page."""
    [text] = await sandbox.mail(EMAIL)
    for fields in ({"token": link_in(text).partition("=")[2]}, {"code": code_in(text)}):
        assert (await grace.post("/verify-email", fields)).status_code == 403
    assert "not confirmed" in (await grace.get("/settings")).text


async def test_a_wrong_code_is_told_at_its_field(sandbox: Portal, grace: Visitor) -> None:
    """With the number of tries that are left; after the last one, the page offers a new message."""
    [text] = await sandbox.mail(EMAIL)
    other = f"{(int(code_in(text)) + 1) % 1_000_000:06d}"
    page = await grace.press("/verify-email", "Confirm email", code=other)
    assert page.status_code == 400
    assert 'id="code-error"' in page.text
    assert "Tries left: 4" in page.text
    for _ in range(4):
        page = await grace.press("/verify-email", "Confirm email", code=other)
    assert "was the last try" in page.text
    assert "Confirm email</button>" not in page.text

    sandbox.clock.advance(seconds=1)
    sent = await grace.press("/verify-email", "Send a message")

    assert sent.headers["location"] == "/verify-email?done=sent"
    [text, _] = await sandbox.mail(EMAIL)
    done = await grace.press("/verify-email?done=sent", "Confirm email", code=code_in(text))
    assert done.status_code == 303


async def test_too_many_messages_are_refused_with_a_page(grace: Visitor) -> None:
    """It says how long to wait."""
    for _ in range(MAIL_ACCOUNT_LIMIT.attempts_max - 1):
        assert (await grace.press("/verify-email", "Send a new message")).status_code == 303
    page = await grace.press("/verify-email", "Send a new message")
    assert (page.status_code, page.headers["retry-after"]) == (429, "86400")
    assert "Try again in 24 hours." in page.text


async def test_the_email_is_changed_with_the_password(sandbox: Portal, grace: Visitor) -> None:
    """Mistakes are told at their fields; the code goes to the new address."""
    for field, fields in {
        "password": {"email": "new@example.com", "password": "wrong horse battery"},
        "email": {"email": "nonsense", "password": PASSWORD},
    }.items():
        page = await grace.press("/settings/email", "Change email", **fields)
        assert (page.status_code, f'id="{field}-error"' in page.text) == (400, True)

    sent = await grace.press(
        "/settings/email", "Change email", email="new@example.com", password=PASSWORD
    )
    assert "new@example.com" in (await grace.get(sent.headers["location"])).text
    [text] = await sandbox.mail("new@example.com")
    await grace.press("/verify-email", "Confirm email", code=code_in(text))

    assert "new@example.com" in (await grace.get("/settings")).text
    assert (await sandbox.visitor().sign_in("new@example.com")).status_code == 303


async def test_whoever_is_signed_out_signs_in_before_typing_a_code(sandbox: Portal) -> None:
    """And comes back to the page."""
    visitor = sandbox.visitor()
    asked = await visitor.get("/verify-email")
    assert (asked.status_code, asked.headers["location"]) == (303, "/login?next=/verify-email")
    token = (await visitor.form("/login", "Sign in")).fields["form_token"]
    posted = await visitor.post("/verify-email", {"form_token": token, "code": "123456"})
    assert posted.headers["location"] == "/login?next=/verify-email"


async def test_a_server_without_mail_says_so(ada: Visitor) -> None:
    """No button promises a message, and a form that is sent all the same is refused."""
    for path in ("/verify-email", "/settings/email"):
        page = (await ada.get(path)).text
        assert "This server sends no mail" in page
        assert "message</button>" not in page
        assert "Change email</button>" not in page
    token = (await ada.form("/settings", "Change password")).fields["form_token"]
    for action in ("/verify-email/send", "/settings/email"):
        fields = {"form_token": token, "email": "new@example.com", "password": PASSWORD}
        assert (await ada.post(action, fields)).status_code == 400


async def test_a_sandbox_shows_its_mail_to_everyone(sandbox: Portal, grace: Visitor) -> None:
    """The newest first, with links that can be followed; names in it are escaped.

    The links lead to pages of the host that the visitor uses, so that they stay signed in.
    """
    sandbox.clock.advance(seconds=1)
    await sandbox.person("eve", email="<b>eve</b>@evil.example")
    page = (await sandbox.visitor().get("/sandbox/mail")).text
    assert page.index("@evil.example") < page.index(EMAIL)
    assert "<b>" not in page
    [path] = re.findall(r'href="(/verify-email[^"]+)"', page)[1:]
    assert (await grace.get(path)).status_code == 200
    only = (await sandbox.visitor().get(f"/sandbox/mail?to={EMAIL}")).text
    assert "evil.example" not in only


async def test_a_live_server_shows_no_mail(portal: Portal) -> None:
    """There is no such page."""
    assert (await portal.visitor().get("/sandbox/mail")).status_code == 404
