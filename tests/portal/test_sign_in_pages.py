"""The pages for signing up, signing in, entering a code and signing out."""

from urllib.parse import quote

import pytest

from tests.support.portal import Portal
from tests.support.visitor import PASSWORD, Visitor

EVIL_TARGETS = [
    "//evil.example",
    "///evil.example",
    "/\\evil.example",
    "\\\\evil.example",
    "https://evil.example",
    "https:evil.example",
    "/\t/evil.example",
    "/\n/evil.example",
    "javascript:alert(1)",
    "evil.example",
    " //evil.example",
    "/ok\\..\\evil",
    "/\u2028/evil.example",
    "http://ousel.test@evil.example",
]


@pytest.mark.usefixtures("ada")
async def test_signing_in_returns_to_the_requested_page(portal: Portal) -> None:
    """The page that asked, with its query, is the page that opens after signing in."""
    wanted = "/activity?direction=in&from=2026-01-01"
    stranger = portal.visitor()
    asked = await stranger.get(wanted)
    assert asked.status_code == 303
    assert asked.headers["location"] == f"/login?next={quote(wanted, safe='')}"
    entered = await stranger.sign_in("ada", page=asked.headers["location"])
    assert (entered.status_code, entered.headers["location"]) == (303, wanted)
    assert (await stranger.get(wanted)).status_code == 200


async def test_the_return_path_survives_a_wrong_password_and_the_code(
    portal: Portal, ada: Visitor
) -> None:
    """Neither a typing error nor the second factor loses the page that asked."""
    secret, _ = await portal.turn_on_factor(ada)
    visitor = portal.visitor()
    login = "/login?next=%2Fapps%2Fnew"
    wrong = await visitor.sign_in("ada", "wrong horse battery", page=login)
    assert wrong.status_code == 400
    assert 'name="next" value="/apps/new"' in wrong.text
    asked = await visitor.sign_in("ada", page=login)
    assert asked.headers["location"] == "/login/code?next=%2Fapps%2Fnew"
    code_page = asked.headers["location"]
    wrong_code = await visitor.press(code_page, "Continue", code="000000")
    assert (wrong_code.status_code, "This code is not right" in wrong_code.text) == (400, True)
    entered = await visitor.press(code_page, "Continue", code=portal.code(secret))
    assert (entered.status_code, entered.headers["location"]) == (303, "/apps/new")


async def test_a_form_sent_after_the_session_ended_comes_back_to_its_page(
    portal: Portal, ada: Visitor
) -> None:
    """Signing in again leads to the page that had the form, not to an address without a page.

    The query is kept, except `done`.
    """
    form = await ada.form("/settings", "Change password")
    portal.clock.advance(seconds=31 * 24 * 3600)
    for referrer, target in (
        ("http://ousel.test/settings?done=session", "%2Fsettings"),
        ("http://ousel.test/settings/password", "%2Fsettings"),
        ("http://ousel.test/send?to=@grace&done=sent", "%2Fsend%3Fto%3D%40grace"),
        ("http://ousel.test/settings/passkeys/pk_1/rename?a=b", "%2Fsettings%2Fpasskeys%2Fpk_1"),
        ("http://ousel.test/nothing/here", "%2F"),
        ("http://evil.example/settings", "%2F"),
        ("http://ousel.test//evil.example", "%2F"),
        ("http://[", "%2F"),
        ("", "%2F"),
    ):
        asked = await ada.post(form.action, form.fields, Referer=referrer)
        assert (asked.status_code, asked.headers["location"]) == (303, f"/login?next={target}")


@pytest.mark.slow
@pytest.mark.usefixtures("ada")
async def test_the_return_path_never_leaves_the_site(portal: Portal) -> None:
    """Whatever stands in `next`, in the address or in the form, signing in stays here."""
    for target in EVIL_TARGETS:
        login = f"/login?next={quote(target, safe='')}"
        visitor = portal.visitor()
        assert (await visitor.sign_in("ada", page=login)).headers["location"] == "/activity"
        assert (await visitor.get(login)).headers["location"] == "/activity"
        other = portal.visitor()
        form = await other.form("/login", "Sign in")
        filled = form.fields | {"identifier": "ada", "password": PASSWORD, "next": target}
        entered = await other.post(form.action, filled)
        assert (entered.status_code, entered.headers["location"]) == (303, "/activity")


@pytest.mark.usefixtures("ada")
async def test_a_return_path_that_is_encoded_twice_stays_a_path(portal: Portal) -> None:
    """What decodes once to a path is that path; nobody decodes it again."""
    entered = await portal.visitor().sign_in("ada", page="/login?next=%252F%252Fevil.example")
    assert entered.headers["location"] == "/activity"
    entered = await portal.visitor().sign_in("ada", page="/login?next=%2F%252Fevil.example")
    assert entered.headers["location"] == "/%2Fevil.example"


@pytest.mark.usefixtures("ada")
async def test_a_phone_leaves_names_as_they_are_typed(portal: Portal) -> None:
    """Its keyboard neither begins them with a capital nor corrects them to a word."""
    for path, name in (("/login", "identifier"), ("/signup", "username")):
        page = (await portal.visitor().get(path)).text
        [field] = [each for each in page.split("<input ") if f'name="{name}"' in each]
        assert 'autocapitalize="none" autocorrect="off"' in field


async def test_known_and_unknown_accounts_are_refused_alike(portal: Portal) -> None:
    """The two pages differ in nothing but what was typed."""
    visitor = portal.visitor()
    pages = [
        await visitor.sign_in(name, "wrong horse battery") for name in ("ada", "eve", "ada@x.org")
    ]
    assert {page.status_code for page in pages} == {400}
    plain = {
        page.text.replace(f'value="{name}"', "")
        for page, name in zip(pages, ("ada", "eve", "ada@x.org"), strict=True)
    }
    assert len(plain) == 1
    assert "The email, username or password is not right." in plain.pop()
    headers = [sorted(set(page.headers) - {"set-cookie"}) for page in pages]
    assert headers[0] == headers[1] == headers[2]


@pytest.mark.usefixtures("ada")
async def test_thirty_wrong_passwords_are_limited(portal: Portal) -> None:
    """After ten, a page says when to try again; from another address the right one works.

    From the address that was used for guessing, another person can sign in.
    """
    await portal.person("grace")
    guesser = portal.visitor("203.0.113.9")
    pages = [await guesser.sign_in("ada", f"wrong horse {number}") for number in range(30)]
    assert [page.status_code for page in pages] == [400] * 10 + [429] * 20
    limited = pages[-1]
    assert limited.headers["content-type"].startswith("text/html")
    assert limited.headers["retry-after"] == str(15 * 60)
    assert "Try again in 15 minutes." in limited.text
    assert (await guesser.sign_in("ada")).status_code == 429
    assert (await portal.visitor("192.0.2.77").sign_in("ada")).status_code == 303
    assert (await portal.visitor("203.0.113.9").sign_in("grace")).status_code == 303
    portal.clock.advance(seconds=15 * 60)
    assert (await guesser.sign_in("ada")).status_code == 303


async def test_sign_up_says_which_field_is_wrong_and_keeps_the_others(portal: Portal) -> None:
    """The sentence stands at its field; what was typed stays, but never the password."""
    for field, value, sentence in (
        ("username", "a b", "3 to 30 characters"),
        ("username", "admin", "reserved"),
        ("email", "nonsense", "such as ada@example.com"),
        ("display_name", "   ", "1 to 100"),
        ("password", "short", "12 characters or more"),
    ):
        page = await portal.visitor().sign_up("grace", **{field: value})
        assert page.status_code == 400
        assert f'id="{field}-error"' in page.text
        assert sentence in page.text
        assert PASSWORD not in page.text
        if field != "email":
            assert 'value="grace@example.com"' in page.text
    assert (await portal.visitor().sign_up("grace")).status_code == 303


@pytest.mark.usefixtures("ada")
async def test_sign_up_names_every_wrong_field_at_once(portal: Portal) -> None:
    """A username that is in use is one of them; the cursor is in the first of these fields."""
    wrong = {"email": "nonsense", "display_name": " ", "password": "short"}
    for username, sentence in (("a b", "3 to 30 characters"), ("Ada", "@ada is in use.")):
        page = (await portal.visitor().sign_up(username, **wrong)).text
        for field in ("username", *wrong):
            assert f'id="{field}-error"' in page
        assert sentence in page
        assert page.count("autofocus") == 1
        assert "autofocus" in page.partition('name="email"')[0]


@pytest.mark.usefixtures("ada")
async def test_a_taken_name_is_reported_at_its_field(portal: Portal) -> None:
    """A second Ada learns that the username is in use, and can choose another."""
    page = await portal.visitor().sign_up("Ada")
    assert (page.status_code, 'id="username-error"' in page.text) == (409, True)


@pytest.mark.usefixtures("ada")
async def test_sign_up_does_not_tell_that_an_email_is_in_use(portal: Portal) -> None:
    """Somebody who signs up with Ada's email gets the same answer as everybody else."""
    taken = await portal.visitor().sign_up("eve", email="ADA@example.com")
    free = await portal.visitor().sign_up("mallory")
    assert (taken.status_code, taken.headers["location"]) == (303, free.headers["location"])


async def test_signing_out_ends_the_session_and_forgets_the_cookie(
    portal: Portal, ada: Visitor
) -> None:
    """Whoever kept a copy of the cookie is out as well."""
    cookie = ada.client.cookies["ousel_session"]
    left = await ada.press("/activity", "Sign out")
    assert (left.status_code, left.headers["location"]) == (303, "/login")
    assert not await ada.is_signed_in()
    thief = portal.visitor()
    assert (await thief.get("/settings", Cookie=f"ousel_session={cookie}")).status_code == 303


async def test_people_who_are_signed_in_skip_the_sign_in_page(ada: Visitor) -> None:
    """The start page and the sign-in page lead to the activity, or to the page that asked."""
    for path, target in (
        ("/", "/activity"),
        ("/login", "/activity"),
        ("/login?next=/apps", "/apps"),
        ("/login/code?next=/apps", "/apps"),
    ):
        answer = await ada.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, target)


async def test_a_code_without_a_password_leads_back_to_sign_in(portal: Portal) -> None:
    """The page of the code lets nobody in who has not given a password."""
    visitor = portal.visitor()
    form = await visitor.form("/login/code", "Sign in")
    page = await visitor.post("/login/code", form.fields | {"code": "123456"})
    assert page.status_code == 400
    assert "begin again" in page.text
    assert "Email or username" in page.text


async def test_a_wrong_code_is_told_at_its_field(portal: Portal, ada: Visitor) -> None:
    """A screen reader reads the sentence with the field, which has the cursor."""
    await portal.turn_on_factor(ada)
    visitor = portal.visitor()
    await visitor.sign_in("ada")
    page = (await visitor.press("/login/code", "Continue", code="000000")).text
    field = page.partition('<input id="code"')[2].partition(">")[0]
    assert 'aria-describedby="code-error "' in field
    assert 'aria-invalid="true" autofocus' in field
    assert page.count("This code is not right.") == 1


async def test_a_code_that_comes_too_late_leads_back_to_sign_in(portal: Portal) -> None:
    """The browser keeps its cookie longer than the sign-in waits, so the page can say why."""
    ada = await portal.person("ada")
    secret, _ = await portal.turn_on_factor(ada)
    phone = portal.visitor()
    waiting = await phone.sign_in("ada")
    assert "Max-Age=3600" in waiting.headers["set-cookie"]
    form = await phone.form("/login/code", "Continue")

    portal.clock.advance(seconds=11 * 60)
    late = await phone.post("/login/code", form.fields | {"code": portal.code(secret)})
    page = await phone.get(late.headers["location"])

    assert (late.status_code, page.status_code) == (303, 400)
    assert "The sign-in took too long, or was finished before: begin again." in page.text
    assert "Email or username" in page.text
