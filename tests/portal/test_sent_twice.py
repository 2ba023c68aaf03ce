"""Forms that are sent twice, by a double click or a reload, take effect once."""

import asyncio

import pytest

from ousel.kernel.ids import repeatable_secret
from tests.support.accounts import verify
from tests.support.authenticator import Authenticator
from tests.support.engines import ENGINES
from tests.support.mail import code_in
from tests.support.portal import Portal
from tests.support.visitor import PASSWORD, Visitor, secret_of, shown_key

pytestmark = pytest.mark.parametrize("engine", ENGINES)

TEST_MONEY = "Get test money"
NEW_ADA = {
    "username": "ada",
    "email": "ada@example.com",
    "display_name": "Ada",
    "password": PASSWORD,
}


async def status(portal: Portal, key: str) -> int:
    """Return how the interface answers this key."""
    return (await portal.call("/me", key)).status_code


async def send_twice(visitor: Visitor, path: str, button: str, **filled: str) -> list[str]:
    """Send a form twice at once and once more later; return where the answers lead."""
    form = await visitor.form(path, button)
    fields = form.pressed(button, filled)
    answers = await asyncio.gather(*(visitor.send(form, fields) for _ in range(2)))
    answers.append(await visitor.send(form, fields))
    assert {answer.status_code for answer in answers} == {303}, [each.text for each in answers]
    return [answer.headers["location"] for answer in answers]


def same_browser(portal: Portal, visitor: Visitor) -> Visitor:
    """Return a window of the same browser, as it was before anybody had signed in."""
    window = portal.visitor()
    window.client.cookies["ousel_visitor"] = visitor.client.cookies["ousel_visitor"]
    return window


async def test_a_sign_up_sent_twice_opens_one_account(portal: Portal) -> None:
    """Each answer signs in to it, also if the browser has stored the first session already."""
    ada = portal.visitor()
    form = await ada.form("/signup", "Create account")
    fields = form.pressed("Create account", NEW_ADA)
    windows = [ada, same_browser(portal, ada), same_browser(portal, ada)]
    answers = await asyncio.gather(*(each.send(form, fields) for each in windows[:2]))
    answers.append(await windows[2].send(form, fields))
    answers.append(await ada.send(form, fields))

    assert [(each.status_code, each.headers["location"]) for each in answers] == [
        (303, "/activity")
    ] * 4
    for window in windows:
        assert "@ada" in (await window.get("/activity")).text
    assert (await ada.get("/settings/history")).text.count("Account created") == 1
    assert (await portal.mail("ada@example.com")) == []


async def test_a_sign_in_sent_twice_signs_in(portal: Portal) -> None:
    """Also if the browser has stored the first session before it sends the second form."""
    await portal.person("ada")
    visitor = portal.visitor()
    form = await visitor.form("/login", "Sign in")
    fields = form.pressed("Sign in", {"identifier": "ada", "password": PASSWORD})
    for _ in range(2):
        assert (await visitor.send(form, fields)).headers["location"] == "/activity"
    assert await visitor.is_signed_in()


async def test_a_sign_in_sent_twice_after_a_session_has_ended_signs_in(portal: Portal) -> None:
    """The browser still has the cookie of that session when it opens the sign-in page."""
    ada = await portal.person("ada")
    visitor = portal.visitor()
    await visitor.sign_in("ada")
    filled = {"current_password": PASSWORD, "new_password": "a better horse battery"}
    await ada.press("/settings", "Change password", **filled)
    form = await visitor.form("/login", "Sign in")
    fields = form.pressed("Sign in", {"identifier": "ada", "password": filled["new_password"]})
    for _ in range(2):
        assert (await visitor.send(form, fields)).headers.get("location") == "/activity"


async def test_a_code_sent_twice_signs_in_once(portal: Portal) -> None:
    """Whichever answer the browser shows, it leads to the page that the person wanted.

    The second form may be sent before or after the browser has stored the new session.
    """
    secret, _ = await portal.turn_on_factor(await portal.person("ada"))
    visitor = portal.visitor()
    await visitor.sign_in("ada", page="/login?next=/apps")
    form = await visitor.form("/login/code?next=/apps", "Continue")
    fields = form.pressed("Continue", {"code": portal.code(secret)})
    answers = await asyncio.gather(*(visitor.send(form, fields) for _ in range(2)))
    later = await visitor.send(form, fields)

    assert {answer.status_code for answer in (*answers, later)} == {303}, [
        answer.text for answer in (*answers, later)
    ]
    done, late = sorted((answer.headers["location"] for answer in answers), key=len)
    assert (done, late, later.headers["location"]) == ("/apps", "/login/code?next=%2Fapps", "/apps")
    assert (await visitor.get(late)).headers["location"] == "/apps"
    assert (await visitor.get("/settings/history")).text.count("Signed in") == 1


async def test_a_passkey_sent_twice_after_the_password_signs_in(portal: Portal) -> None:
    """The second form leads to the same page, although the browser has the new session."""
    phone = Authenticator("http://ousel.test", "ousel.test")
    ada = await portal.person("ada")
    await ada.use_passkey("/settings/passkeys", "Add passkey", phone, name="Phone")
    visitor = portal.visitor()
    await visitor.sign_in("ada")
    form = await visitor.form("/login/code", "Use a passkey")
    signed_in = await visitor.use_passkey("/login/code", "Use a passkey", phone)
    again = await visitor.send(form, form.pressed("Use a passkey", {}))

    assert signed_in.headers["location"] == "/activity"
    assert (again.status_code, again.headers.get("location")) == (303, "/activity")


async def test_a_code_that_confirms_an_email_may_be_sent_twice(sandbox: Portal) -> None:
    """Each answer says that the email is confirmed."""
    ada = await sandbox.person("ada")
    form = await ada.form("/verify-email", "Confirm email")
    [text] = await sandbox.mail("ada@example.com")
    fields = form.pressed("Confirm email", {"code": code_in(text)})
    answers = await asyncio.gather(*(ada.send(form, fields) for _ in range(2)))
    answers.append(await ada.send(form, fields))
    assert [answer.headers.get("location") for answer in answers] == [
        "/verify-email?done=confirmed"
    ] * 3
    page = (await ada.get("/verify-email?done=confirmed")).text
    assert "<title>Email confirmed · Ousel</title>" in page


async def test_an_authenticator_app_turned_on_twice_is_on(portal: Portal) -> None:
    """One answer shows the recovery codes, and the other says how to get new ones."""
    ada = await portal.person("ada")
    form = await ada.form("/settings/two-factor", "Turn on")
    secret = secret_of((await ada.get("/settings/two-factor")).text, "factor-secret")
    fields = form.pressed("Turn on", {"code": portal.code(secret)})
    answers = await asyncio.gather(*(ada.send(form, fields) for _ in range(2)))

    done, late = sorted(answers, key=lambda answer: answer.status_code)
    assert (done.status_code, "Two-factor sign-in is on." in done.text) == (200, True)
    assert (late.status_code, "is set up already" in late.text) == (400, True)


async def test_only_the_browser_that_signed_up_is_signed_in_by_a_second_sign_up(
    portal: Portal,
) -> None:
    """Others learn that the username is in use, whatever they type, and no guess is counted."""
    ada = await portal.person("ada")
    before = (await ada.get("/settings/history")).text
    for password in (PASSWORD, "wrong horse battery"):
        stranger = portal.visitor()
        refused = await stranger.sign_up("ada", password=password)
        assert (refused.status_code, "@ada is in use." in refused.text) == (409, True)
        assert not await stranger.is_signed_in()
    assert (await ada.get("/settings/history")).text == before
    guesser = same_browser(portal, ada)
    refused = await guesser.sign_up("ada", password="wrong horse battery")
    assert (refused.status_code, "@ada is in use." in refused.text) == (409, True)
    assert not await guesser.is_signed_in()


async def test_guesses_at_sign_up_are_limited_as_at_sign_in(portal: Portal) -> None:
    """Whoever finds the browser of somebody who has signed out cannot guess the password there."""
    ada = await portal.person("ada")
    guesser = same_browser(portal, ada)
    answers = [
        (await guesser.sign_up("ada", password=f"wrong horse {number}")).status_code
        for number in range(11)
    ]
    assert answers == [409] * 10 + [429]


async def test_an_app_sent_twice_is_created_once(sandbox: Portal) -> None:
    """With another name, the same form creates another app; and so does another form."""
    ada = await sandbox.person("ada")
    leads = await send_twice(ada, "/apps/new", "Create app", name="Shop")
    assert len(set(leads)) == 1
    form = await ada.form("/apps/new", "Create app")
    for name in ("Shop", "Other shop"):
        leads.append(
            (await ada.send(form, form.pressed("Create app", {"name": name}))).headers["location"]
        )
    assert len(set(leads)) == 3
    assert (await ada.get("/apps")).text.count('href="/apps/app_') == 3
    assert (await ada.get("/settings/history")).text.count("App created") == 3


@pytest.mark.one_engine
async def test_the_seed_of_a_form_does_not_determine_the_id_of_an_app(sandbox: Portal) -> None:
    """The id depends on the session too, so nobody can give their app the id of another."""
    ada, eve = await sandbox.person("ada"), await sandbox.person("eve")
    form = await ada.form("/apps/new", "Create app")
    tails = set()
    for visitor in (ada, eve):
        token = (await visitor.form("/apps/new", "Create app")).fields["form_token"]
        fields = form.pressed("Create app", {"name": "Shop"}) | {"form_token": token}
        tails.add((await visitor.send(form, fields)).headers["location"][-16:])
    assert len(tails) == 2


async def test_test_money_sent_twice_is_issued_once(sandbox: Portal) -> None:
    """The page that follows has another form, which issues more."""
    ada = await sandbox.person("ada")
    assert await send_twice(ada, "/activity", TEST_MONEY) == ["/activity"] * 3
    assert '<p class="figure">100.00 OUSD</p>' in (await ada.get("/activity")).text
    await ada.press("/activity", TEST_MONEY)
    assert '<p class="figure">200.00 OUSD</p>' in (await ada.get("/activity")).text
    await verify(sandbox.database)


async def test_a_rotation_sent_twice_makes_one_key(
    sandbox: Portal, partner: tuple[Visitor, str, str]
) -> None:
    """Both answers show it, so it is not lost.

    Another form for the old key is refused, and so is the same form with another overlap.
    """
    visitor, app, old = partner
    form, other = await visitor.form(app, "Rotate"), await visitor.form(app, "Rotate")
    both = await asyncio.gather(*[visitor.post(form.action, form.fields) for _ in range(2)])
    new = shown_key(both[0])
    assert shown_key(both[1]) == new
    for late in (other, form):
        refused = await visitor.post(late.action, late.fields | {"overlap": "0"})
        assert refused.status_code == 400
        assert "already been rotated or revoked" in refused.text
    assert (await status(sandbox, old), await status(sandbox, new)) == (200, 200)
    page = (await visitor.get(app)).text
    assert (page.count(">valid<"), page.count(">ends<")) == (1, 1)


async def test_a_form_sent_twice_issues_one_key(
    sandbox: Portal, partner: tuple[Visitor, str, str]
) -> None:
    """A double click and a reload show the same key, which is announced once.

    With another name, the same form issues another key. When its key has ended, it shows none.
    """
    visitor, app, first = partner
    form = await visitor.form(app, "Issue key")
    fields = form.pressed("Issue key", {"key_name": "till"})
    answers = await asyncio.gather(*[visitor.send(form, fields) for _ in range(2)])
    answers.append(await visitor.send(form, fields))
    keys = {shown_key(answer) for answer in answers}
    assert len(keys) == 1
    assert ["only this one key was issued" in answer.text for answer in answers].count(True) == 2
    assert (await visitor.get("/settings/history")).text.count("“till”") == 1

    keys |= {shown_key(await visitor.send(form, fields | {"key_name": "office"}))}
    keys |= {shown_key(await visitor.press(app, "Issue key", key_name="till"))}
    assert len(keys | {first}) == 4
    assert [await status(sandbox, key) for key in keys] == [200] * 3

    for _ in range(4):
        await visitor.press_and_confirm(app, "Revoke")
    ended = await visitor.send(form, fields)
    assert (ended.status_code, "its key is no longer valid" in ended.text) == (400, True)


@pytest.mark.one_engine
async def test_nobody_else_can_compute_a_key_from_its_form(sandbox: Portal) -> None:
    """The same seed in another session issues another key, and the form alone names none."""
    ada, again = await sandbox.person("ada"), sandbox.visitor()
    await again.sign_in("ada")
    app = await ada.create_app()
    form, theirs = await ada.form(app, "Issue key"), await again.form(app, "Issue key")
    key = shown_key(await ada.send(form, form.pressed("Issue key", {"key_name": "till"})))
    sent = f"{form.fields['form_token']} {form.fields['seed']}"
    assert repeatable_secret("sk_test_", sent, f"{app}/keys till") != key
    filled = {"key_name": "till", "seed": form.fields["seed"]}
    assert shown_key(await again.send(theirs, theirs.pressed("Issue key", filled))) != key
