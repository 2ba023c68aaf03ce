"""Forms: only those of our own pages are accepted, and no text breaks a page."""

import html
import re

import httpx2
import pytest

from ousel.api.router import Router
from ousel.people.rules import IDENTITY_CHECK_SECONDS
from tests.support.forms import Form, form_with, forms_of
from tests.support.portal import Portal
from tests.support.visitor import PASSWORD, Visitor

NASTY = {
    "NUL": "a\0b",
    "only NUL": "\0",
    "a lone surrogate": "a\ud800b",
    "a text that never ends": "x" * 50_000,
    "a long address": "https://example.com/" + "x" * 5_000,
    "an emoji": "🐦" * 30,
    "a line break": "one\r\ntwo",
    "a bell": "\a",
    "another direction": "\u202egnihton",
    "nothing": "",
    "a number": "99999999999999999999",
    "markup": "<b>'\"&",
}
REFUSED_OUTRIGHT = ("NUL", "only NUL", "a lone surrogate")


async def furnished_paths(person: Visitor) -> list[str]:
    """Return pages with every form there is, after filling them."""
    app = await person.create_app()
    await person.press(app, "Add redirect URI", redirect_uri="https://shop.example/back")
    await person.press(app, "Add origin", origin="https://shop.example")
    await person.issue_key(app)
    return [app, "/activity", "/apps/new", "/settings", "/settings/two-factor", "/charges"]


async def send(person: Visitor, form: Form, field: str, value: str) -> httpx2.Response:
    """Send a form with this value in this field."""
    return await person.send(form, form.fields | {field: value})


@pytest.mark.slow
async def test_no_text_in_any_field_breaks_a_page(sandbox: Portal) -> None:
    """Whatever is typed, the answer is a page that says what is wrong, or goes on."""
    person = await sandbox.person("ada")
    tried = 0
    for path in await furnished_paths(person):
        for form in forms_of((await person.get(path)).text):
            for field in form.fields.keys() - {"form_token"}:
                for what, value in NASTY.items():
                    if what in REFUSED_OUTRIGHT and form.method == "get":
                        continue
                    answer = await send(person, form, field, value)
                    where = f"{what} in {field} of {form.action}"
                    assert answer.status_code in {200, 303, 400, 404, 429}, where
                    if what in REFUSED_OUTRIGHT:
                        assert answer.status_code == 400, where
                    if answer.status_code != 303:
                        assert answer.headers["content-type"].startswith("text/html"), where
                        assert "<b>" not in answer.text, where
                    tried += 1
    assert tried > 100


@pytest.mark.slow
async def test_no_text_breaks_the_sign_in_pages(portal: Portal) -> None:
    """The same holds for strangers: at sign-up, at sign-in, and where the code is asked for."""
    filled = {"username": "ada", "email": "a@b.example", "password": PASSWORD}
    for path in ("/signup", "/login"):
        form = forms_of((await portal.visitor().get(path)).text)[0]
        for field in form.fields.keys() - {"form_token", "next"}:
            for what, value in NASTY.items():
                visitor = portal.visitor()
                token = forms_of((await visitor.get(path)).text)[0].fields["form_token"]
                fields = form.fields | filled | {"form_token": token, field: value}
                answer = await visitor.post(form.action, fields)
                where = f"{what} in {field} of {path}"
                assert answer.status_code in {303, 400, 409}, where
                if what in REFUSED_OUTRIGHT:
                    assert answer.status_code == 400, where
    for what, value in NASTY.items():
        visitor = portal.visitor()
        token = (await visitor.form("/login", "Sign in")).fields["form_token"]
        answer = await visitor.post("/login/code", {"form_token": token, "code": value})
        assert answer.status_code == 400, f"{what} in the code"


async def test_the_title_says_that_something_is_wrong(sandbox: Portal) -> None:
    """A screen reader reads it first when the page opens; a question or a success is no error."""
    visitor = sandbox.visitor()
    refused = await visitor.sign_in("ada", "wrong horse battery")
    assert title_of(refused) == "Error: Sign in"
    assert title_of(await visitor.press("/verify", "Check receipt")) == "Error: Check a receipt"
    unproven = await visitor.press("/verify", "Check receipt", receipt="nothing")
    assert title_of(unproven) == "This receipt proves nothing"
    ada = await sandbox.person("ada")
    wrong = await ada.press("/send", "Continue", to="@nobody_at_all", amount="1")
    assert title_of(wrong) == "Error: Send money"
    assert title_of(await ada.get("/activity?from=yesterday")) == "Error: Activity"
    app = await ada.create_app()
    assert title_of(await ada.press(app, "Add origin", origin="shop")) == "Error: Shop"
    sandbox.clock.advance(seconds=IDENTITY_CHECK_SECONDS)
    asked = await ada.get("/settings/passkeys")
    assert title_of(asked) == "Confirm that it is you"
    form = form_with(asked.text, "Continue")
    wrong = await ada.send(form, form.pressed("Continue", {"identity_password": "wrong"}))
    assert title_of(wrong) == "Error: Confirm that it is you"


def title_of(answer: httpx2.Response) -> str:
    """Return the title of a page, without the name of the site."""
    title = answer.text.partition("<title>")[2].partition("</title>")[0]
    return html.unescape(title).removesuffix(" · Ousel")


async def test_an_unknown_path_is_not_found(ada: Visitor) -> None:
    """Malformed ids in a path are answered like unknown ones."""
    for path in (
        "/apps/%00",
        "/apps/%00/errors",
        "/apps/app_x%00y/first-steps",
        "/activity/%00",
        "/activity/99999999999999999999999",
        "/activity/9223372036854775807",
        "/activity/9999999999999999999",
        "/activity/0",
        "/activity/-1",
        "/activity/%D9%A1",
        "/charges/%00",
    ):
        assert (await ada.get(path)).status_code == 404, path


async def test_an_invalid_query_is_reported(ada: Visitor) -> None:
    """A page and a download with filters that mean nothing say so."""
    for query in (
        "from=2026-02-30",
        "from=9999-12-31",
        "to=yesterday",
        "kind=nonsense",
        "direction=up",
        "cursor=nonsense",
        "cursor=YWZ0ZXI6OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5",
        "from=%00",
        "&".join(f"a{number}=1" for number in range(200)),
    ):
        for path in ("/activity", "/activity.csv"):
            answer = await ada.get(f"{path}?{query}")
            assert answer.status_code == 400, query
            assert answer.headers["content-type"].startswith("text/html")


async def test_a_query_that_is_no_text_is_read_as_far_as_it_goes(ada: Visitor) -> None:
    """Octets that are not UTF-8 in an address do no harm."""
    for query in ("from=%ff%fe", "next=%ed%a0%80", "%ff=1", "=&&=%zz"):
        assert (await ada.get(f"/settings?{query}")).status_code == 200
        assert (await ada.get(f"/activity?{query}")).status_code in {200, 400}


async def test_a_form_needs_its_visitors_token(portal: Portal, ada: Visitor) -> None:
    """A token that is missing, wrong, or another visitor's is refused, and nothing is done."""
    eve = await portal.person("eve")
    form = await ada.form("/apps/new", "Create app")
    eves = (await eve.form("/apps/new", "Create app")).fields["form_token"]
    strangers = (await portal.visitor().form("/login", "Sign in")).fields["form_token"]
    filled = form.fields | {"name": "Planted"}
    without = {"name": "Planted"}
    for fields in (
        without,
        *(without | {"form_token": token} for token in ("", "0" * 64, "é", eves, strangers)),
    ):
        answer = await ada.post(form.action, fields)
        assert answer.status_code == 403
        assert "Nothing was changed." in answer.text
    assert "Planted" not in (await ada.get("/apps")).text
    assert (await ada.post(form.action, filled)).status_code == 303


async def test_a_form_that_is_refused_leads_back_to_no_other_site(ada: Visitor) -> None:
    """Where the browser came from is a link only if it is a page of this site."""
    for referrer, link in (
        ("http://ousel.test/connect?client_id=app_1", 'href="/connect?client_id=app_1"'),
        ("http://evil.example/connect", None),
        ("http://ousel.test//evil.example", 'href="/"'),
        ("", None),
    ):
        answer = await ada.post("/apps/new", {"name": "Planted"}, Referer=referrer)
        found = re.findall(r"(href=\S+)>Open the page again", answer.text)
        assert found == ([] if link is None else [link])


async def test_where_the_browser_came_from_is_looked_up_in_a_few_steps(
    ada: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long its address is: each step takes time that everybody waits for."""
    looked_up: list[str] = []
    find = Router.has_page

    def has_page(router: Router, path: str) -> bool:
        looked_up.append(path)
        return find(router, path)

    monkeypatch.setattr(Router, "has_page", has_page)
    referrer = f"http://ousel.test/settings/x{'/' * 60_000}"
    answer = await ada.post("/apps/new", {"name": "Planted"}, Referer=referrer)
    assert 'href="/settings">Open the page again' in answer.text
    assert len(looked_up) < 20


async def test_a_form_of_someone_signed_out_needs_the_token_too(portal: Portal) -> None:
    """Nobody can be signed in to another's account by a form from elsewhere."""
    await portal.person("eve")
    victim = portal.visitor()
    await victim.get("/login")
    attackers = await portal.visitor().form("/login", "Sign in")
    fields = attackers.fields | {"identifier": "eve", "password": PASSWORD}
    assert (await victim.post("/login", fields)).status_code == 403
    assert (await portal.visitor().post("/login", fields)).status_code == 403


async def test_a_form_from_another_origin_is_refused(ada: Visitor) -> None:
    """Even with the right token, a form counts only where the browser says it was ours."""
    form = await ada.form("/apps/new", "Create app")
    filled = form.fields | {"name": "Shop"}
    for origin in (
        "http://evil.example",
        "https://ousel.test",
        "http://ousel.test:8000",
        "http://ousel.test.evil.example",
        "null",
        "",
    ):
        answer = await ada.post(form.action, filled, Origin=origin)
        assert answer.status_code == 403, origin
    assert "Shop" not in (await ada.get("/apps")).text
    assert (await ada.post(form.action, filled, Origin="http://ousel.test")).status_code == 303


async def test_forms_work_under_another_host_name(portal: Portal) -> None:
    """Whoever opens localhost where the settings say 127.0.0.1 can sign up there as well."""
    visitor = portal.visitor()
    other = {"Host": "localhost:8000", "Origin": "http://localhost:8000"}
    form = await visitor.form("/signup", "Create account")
    filled = form.fields | {
        "username": "ada",
        "email": "ada@example.com",
        "display_name": "Ada",
        "password": PASSWORD,
    }
    assert (await visitor.post(form.action, filled, **other)).status_code == 303


async def test_an_invalid_form_is_refused_with_a_page(ada: Visitor) -> None:
    """Other kinds of bodies, too large ones and unreadable ones are told in words."""
    form = "application/x-www-form-urlencoded"
    for content_type, body, status in (
        ("application/json", b'{"name": "Shop"}', 415),
        ("multipart/form-data; boundary=x", b"--x--", 415),
        ("text/plain", b"name=Shop", 415),
        (form, b"name=" + b"x" * 70_000, 413),
        (form, b"&".join([b"a=1"] * 200), 400),
        (form, "name=ä".encode(), 400),
        (form, b"name=%FF", 400),
    ):
        headers = {"Content-Type": content_type}
        answer = await ada.client.post("/apps/new", content=body, headers=headers)
        assert answer.status_code == status
        assert answer.headers["content-type"].startswith("text/html")
