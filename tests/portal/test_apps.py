"""Apps, keys, redirect URIs and origins in the portal."""

import pytest

from ousel.kernel.clock import timestamp
from ousel.partners import app_service, key_service
from ousel.portal import app_overview
from tests.support.engines import ENGINES
from tests.support.forms import form_with, forms_of
from tests.support.portal import Portal, open_portal
from tests.support.visitor import Visitor, shown_key

pytestmark = pytest.mark.parametrize("engine", ENGINES)  # these pages have searches of their own

ELSEWHERE = "https://shop.example"


async def rotate(visitor: Visitor, app: str, overlap: str) -> str:
    """Rotate the key that can be, and return the new one."""
    return shown_key(await visitor.press(app, "Rotate", overlap=overlap))


async def status(portal: Portal, key: str) -> int:
    """Return how the interface answers this key."""
    return (await portal.call("/me", key)).status_code


async def test_a_key_calls_as_its_owner(sandbox: Portal, partner: tuple[Visitor, str, str]) -> None:
    """The key that the page shows once opens /me, which names the owner and the app."""
    visitor, app, key = partner
    assert key.startswith("sk_test_")
    me = (await sandbox.call("/me", key)).json()
    assert (me["username"], me["app"]["name"]) == ("ada", "Analytical Engines")
    assert me["app"]["client_id"] == app.removeprefix("/apps/")
    page = (await visitor.get(app)).text
    assert key not in page
    assert f"{key[:16]}…" in page


async def test_a_rotation_without_overlap_ends_the_old_key_at_once(
    sandbox: Portal, partner: tuple[Visitor, str, str]
) -> None:
    """With no overlap, the old key is refused by the very next call."""
    visitor, app, old = partner
    new = await rotate(visitor, app, "0")
    assert (await status(sandbox, old), await status(sandbox, new)) == (401, 200)


async def test_the_default_overlap_is_a_day(
    sandbox: Portal, partner: tuple[Visitor, str, str]
) -> None:
    """Whoever presses Rotate without choosing keeps the old key for 24 hours."""
    visitor, app, old = partner
    shown_key(await visitor.press(app, "Rotate"))
    sandbox.clock.advance(seconds=24 * 3600, micros=-1)
    assert await status(sandbox, old) == 200
    sandbox.clock.advance(micros=1)
    assert await status(sandbox, old) == 401


@pytest.mark.one_engine
async def test_an_overlap_that_is_not_offered_is_refused(partner: tuple[Visitor, str, str]) -> None:
    """A form that was tampered with rotates nothing."""
    visitor, app, _ = partner
    for overlap in ("", "-1", "99999999", "soon"):
        assert (await visitor.press(app, "Rotate", overlap=overlap)).status_code == 400


async def test_a_revoked_key_is_refused_at_once(
    sandbox: Portal, partner: tuple[Visitor, str, str]
) -> None:
    """Once confirmed the key ends, also one that is in its overlap; the page says so."""
    visitor, app, old = partner
    new = await rotate(visitor, app, "604800")
    assert (await visitor.press_and_confirm(app, "Revoke")).headers["location"] == app
    assert (await status(sandbox, old), await status(sandbox, new)) == (401, 200)
    assert (await visitor.press_and_confirm(app, "Revoke")).headers["location"] == app
    assert await status(sandbox, new) == 401
    page = (await visitor.get(app)).text
    assert page.count('<span class="tag">ended</span> <span class="small">revoked ') == 2
    assert "Rotate" not in page


async def test_revoking_a_key_asks_for_confirmation(
    sandbox: Portal, partner: tuple[Visitor, str, str]
) -> None:
    """The first click ends nothing: a page names the key and says what follows."""
    visitor, app, key = partner
    asked = await visitor.press(app, "Revoke")
    assert asked.status_code == 200
    for words in (
        "server",
        f"{key[:16]}…",
        "Analytical Engines",
        "never",
        "calls with it get a <code>401</code>",
    ):
        assert words in asked.text
    assert key not in asked.text
    assert f'href="{app}">Keep the key</a>' in asked.text
    assert await status(sandbox, key) == 200
    assert "Key revoked" not in (await visitor.get("/settings/history")).text
    await visitor.press_and_confirm(app, "Revoke")
    assert await status(sandbox, key) == 401
    assert (await visitor.get("/settings/history")).text.count("Key revoked") == 1


async def test_the_confirmation_shows_when_the_key_was_last_used(
    database_url: str, partner: tuple[Visitor, str, str]
) -> None:
    """The owner sees whether a server still uses the key."""
    visitor, app, key = partner
    async with open_portal(database_url, sandbox=True) as elsewhere:
        elsewhere.clock.advance(seconds=90)
        await elsewhere.call("/me", key)
        used = timestamp(elsewhere.clock())
    asked = (await visitor.press(app, "Revoke")).text
    assert f'datetime="{used}"' in asked
    assert "never" not in asked


async def test_an_ended_key_needs_no_confirmation(
    partner: tuple[Visitor, str, str],
) -> None:
    """An old page's button, or a question that is answered twice, leads back to the app."""
    visitor, app, _ = partner
    on_the_list = await visitor.form(app, "Revoke")
    on_the_question = form_with((await visitor.send(on_the_list, {})).text, "Revoke")
    await visitor.send(on_the_question, on_the_question.fields)
    for form in (on_the_list, on_the_question):
        assert (await visitor.send(form, form.fields)).headers["location"] == app
    assert (await visitor.get("/settings/history")).text.count("Key revoked") == 1


async def test_an_origin_is_allowed_once_it_is_added(
    sandbox: Portal, partner: tuple[Visitor, str, str]
) -> None:
    """Before and after that a call from there is refused; as a browser spells it counts."""
    visitor, app, key = partner
    assert (await sandbox.call("/me", key, Origin=ELSEWHERE)).status_code == 403
    await visitor.press(app, "Add origin", origin=" HTTPS://Shop.Example:443/ ")
    allowed = await sandbox.call("/me", key, Origin=ELSEWHERE)
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == ELSEWHERE
    await visitor.press(app, "Remove")
    assert (await sandbox.call("/me", key, Origin=ELSEWHERE)).status_code == 403


@pytest.mark.one_engine
async def test_an_invalid_value_is_reported_at_its_field(partner: tuple[Visitor, str, str]) -> None:
    """The page comes back with the sentence beside the field, and what was typed in it."""
    visitor, app, _ = partner
    for button, field, value in (
        ("Add origin", "origin", "https://shop.example/path"),
        ("Add origin", "origin", "http://shop.example"),
        ("Add origin", "origin", "*"),
        ("Add redirect URI", "redirect_uri", "http://shop.example/back"),
        ("Add redirect URI", "redirect_uri", "https://shop.example/#here"),
        ("Add redirect URI", "redirect_uri", "javascript:alert(1)"),
        ("Issue key", "key_name", " "),
        ("Issue key", "key_name", "x" * 81),
        ("Rename", "name", "x" * 81),
    ):
        page = await visitor.press(app, button, **{field: value})
        assert page.status_code == 400, value
        assert f'id="{field}-error"' in page.text
        assert f'value="{value}"' in page.text


async def test_a_live_key_needs_a_second_factor(portal: Portal, ada: Visitor) -> None:
    """Without it, nothing is issued or rotated, and the page leads to where it is turned on."""
    app = await ada.create_app()
    refused = await ada.press(app, "Issue key", key_name="server")
    assert refused.status_code == 403
    assert 'href="/settings/two-factor"' in refused.text
    assert "sk_live_" not in refused.text
    secret, _ = await portal.turn_on_factor(ada)
    key = await ada.issue_key(app)
    assert key.startswith("sk_live_")
    assert await status(portal, key) == 200
    await ada.press("/settings/two-factor", "Turn off", code=portal.code(secret))
    assert (await ada.press(app, "Rotate")).status_code == 403
    assert await status(portal, key) == 200


async def test_another_account_s_app_is_not_found(
    sandbox: Portal, partner: tuple[Visitor, str, str]
) -> None:
    """Its pages and forms work only for the owner."""
    _, app, key = partner
    eve = await sandbox.person("eve")
    own = await eve.create_app("Eve's")
    token = (await eve.form(own, "Rename")).fields["form_token"]
    handle = key[:16]
    pages = ("", "/first-steps", "/errors", "/delete", f"/keys/{handle}/revoke")
    for page in pages:
        assert (await eve.get(f"{app}{page}")).status_code == 404
    assert (await eve.get(f"{own}/keys/{handle}/revoke")).status_code == 404
    fields = {
        "form_token": token,
        "name": "Mine",
        "key_name": "mine",
        "overlap": "0",
        "origin": "https://evil.example",
        "redirect_uri": "https://evil.example/",
    }
    for action in (
        "rename",
        "delete",
        "keys",
        f"keys/{handle}/rotate",
        f"keys/{handle}/revoke",
        "redirect-uris",
        "redirect-uris/remove",
        "origins",
        "origins/remove",
    ):
        assert (await eve.post(f"{app}/{action}", fields)).status_code == 404, action
    assert (await eve.post(f"{own}/keys/{handle}/revoke", fields)).status_code == 404
    assert await status(sandbox, key) == 200


async def test_what_is_wrong_with_a_field_is_told_once(partner: tuple[Visitor, str, str]) -> None:
    """At the field, which has the cursor. What is wrong with the app itself is told above."""
    visitor, app, _ = partner
    wrong = await visitor.press(app, "Add origin", origin="shop")
    assert (wrong.status_code, 'id="origin-error"' in wrong.text) == (400, True)
    assert 'role="alert"' not in wrong.text
    assert 'role="alert"' in (await visitor.press(app, "Delete app")).text


async def test_an_app_is_deleted_when_no_key_works(
    sandbox: Portal, partner: tuple[Visitor, str, str]
) -> None:
    """While a key works the page says so; once confirmed the app is gone, and its key stays out."""
    visitor, app, key = partner
    kept = await visitor.press(app, "Delete app")
    assert (kept.status_code, "Revoke the app" in kept.text) == (409, True)
    await visitor.press_and_confirm(app, "Revoke")
    asked = await visitor.press(app, "Delete app")
    for words in ("Analytical Engines", app.removeprefix("/apps/"), "0 people", "Keep the app"):
        assert words in asked.text
    assert (await visitor.get(app)).status_code == 200
    gone = await visitor.press_and_confirm(app, "Delete app")
    assert (gone.status_code, gone.headers["location"]) == (303, "/apps")
    assert (await visitor.get(app)).status_code == 404
    assert await status(sandbox, key) == 401


async def test_a_renamed_app_has_its_new_name_everywhere(
    sandbox: Portal, partner: tuple[Visitor, str, str]
) -> None:
    """The list, the page and /me show it from the next look on.

    If the name stays the same, nothing is recorded.
    """
    visitor, app, key = partner
    for _ in range(2):
        await visitor.press(app, "Rename", name="  Difference Engines ")
    assert (await visitor.get("/settings/history")).text.count("App renamed") == 1
    for path in ("/apps", app):
        assert "Difference Engines" in (await visitor.get(path)).text
    assert (await sandbox.call("/me", key)).json()["app"]["name"] == "Difference Engines"


@pytest.mark.one_engine
async def test_first_steps_are_this_apps_own(partner: tuple[Visitor, str, str]) -> None:
    """The examples carry the client id and the addresses of this very server."""
    visitor, app, _ = partner
    page = (await visitor.get(f"{app}/first-steps")).text
    assert app.removeprefix("/apps/") in page
    assert "curl http://ousel.test/v1/me" in page
    assert 'Client(os.environ["OUSEL_KEY"], base_url="http://ousel.test/v1")' in page


async def test_removing_what_does_not_exist_records_nothing(
    partner: tuple[Visitor, str, str],
) -> None:
    """Removing an origin that was never added changes nothing and records nothing."""
    visitor, app, _ = partner
    token = (await visitor.form(app, "Rename")).fields["form_token"]
    for action, field in (("origins", "origin"), ("redirect-uris", "redirect_uri")):
        fields = {"form_token": token, field: "https://nowhere.example"}
        assert (await visitor.post(f"{app}/{action}/remove", fields)).status_code == 303
    assert "nowhere.example" not in (await visitor.get("/settings/history")).text


@pytest.mark.one_engine
async def test_the_app_page_has_the_promised_buttons(partner: tuple[Visitor, str, str]) -> None:
    """An app's page has the buttons that the interface promises, word for word."""
    visitor, app, _ = partner
    await visitor.press(app, "Add origin", origin=ELSEWHERE)
    await visitor.press(app, "Add redirect URI", redirect_uri=f"{ELSEWHERE}/back")
    page = (await visitor.get(app)).text
    buttons = [button for form in forms_of(page) for button in form.buttons]
    assert buttons.count("Remove") == 2
    for name in ("Issue key", "Rotate", "Revoke", "Add redirect URI", "Add origin"):
        assert buttons.count(name) == 1


async def test_apps_keys_and_addresses_are_limited(
    sandbox: Portal, partner: tuple[Visitor, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One app, key or address too many is refused at its field; after a removal there is room."""
    visitor, app, _ = partner
    monkeypatch.setattr(app_service, "APPS_MAX", 1)
    monkeypatch.setattr(key_service, "KEYS_MAX", 1)
    monkeypatch.setattr(app_service, "ADDRESSES_MAX", 1)
    await visitor.press(app, "Add origin", origin=ELSEWHERE)
    await visitor.press(app, "Add redirect URI", redirect_uri=f"{ELSEWHERE}/back")
    for path, button, field, value in (
        ("/apps/new", "Create app", "name", "Second"),
        (app, "Issue key", "key_name", "second"),
        (app, "Add origin", "origin", "https://other.example"),
        (app, "Add redirect URI", "redirect_uri", "https://other.example/"),
    ):
        full = await visitor.press(path, button, **{field: value})
        assert (full.status_code, f'id="{field}-error"' in full.text) == (400, True), field
    beside = await visitor.press(app, "Rotate", overlap="3600")
    assert (beside.status_code, "There are already 1 valid keys" in beside.text) == (400, True)
    assert shown_key(await visitor.press(app, "Rotate", overlap="0"))
    same = await visitor.press(app, "Add origin", origin=ELSEWHERE)
    assert same.status_code == 303
    await visitor.press_and_confirm(app, "Revoke")
    assert await status(sandbox, await visitor.issue_key(app, "second")) == 200


async def test_only_a_few_ended_keys_are_shown(
    sandbox: Portal, partner: tuple[Visitor, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys that work stand first, then the few that ended last."""
    visitor, app, _ = partner
    monkeypatch.setattr(app_overview, "ENDED_KEYS_SHOWN", 2)
    for number in range(4):
        await visitor.issue_key(app, f"key {number}")
        sandbox.clock.advance(seconds=1)
        await visitor.press_and_confirm(app, "Revoke")
    page = (await visitor.get(app)).text
    assert page.count(">valid<") == 1
    assert page.count(">ended<") == 2
    assert page.index(">valid<") < page.index(">ended<")
    assert page.index(">key 3<") < page.index(">key 2<") < page.index(">key 1<")
