"""Attacks from other sites: forms, frames, and scripts in every text."""

import json
import re

import httpx2
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.journeys.page_states import reflecting_urls
from tests.support.browser import create_app, sign_up
from tests.support.browser_world import SampleWorld
from tests.support.visitor import PASSWORD

pytestmark = pytest.mark.slow

ELSEWHERE = "http://evil.example"
PLANT = "\"'><img src=x onerror=window.planted=1>"
SCRIPT = "<script>window.planted=1</script>"
PLANTED = (
    "window.planted || document.querySelector('img[src=x], main script, svg[onload]')?.outerHTML"
)
# Reads a page as the browser does, without running anything in it.
PARSE = """html => {
  const read = new DOMParser().parseFromString(html, "text/html");
  const planted = read.querySelectorAll("img[src=x], main script, script:not([src]), svg[onload]");
  return [[...planted].map((each) => each.outerHTML), read.body.textContent];
}"""
# A browser that lets everything through, as a program would.
CARELESS = "onload = () => { for (const form of document.forms) form.noValidate = true; }"
FRAME = """addresses => {
  for (const [name, address] of Object.entries(addresses)) {
    const frame = document.createElement("iframe");
    frame.onload = () => { frame.dataset.loaded = "yes"; };
    document.body.append(Object.assign(frame, { name, src: address }));
  }
}"""


def serve_elsewhere(context: BrowserContext, html: str, origin: str = ELSEWHERE) -> None:
    """Let another site show this page."""
    context.route(f"{origin}/**", lambda route: route.fulfill(body=html, content_type="text/html"))


def posting_page(action: str, fields: dict[str, str]) -> str:
    """Return a page that sends a form as soon as it is opened."""
    inputs = "".join(f'<input name="{name}" value="{value}">' for name, value in fields.items())
    return (
        f'<form method="post" action="{action}">{inputs}</form>'
        "<script>document.forms[0].submit()</script>"
    )


@pytest.mark.parametrize("from_same_host", [False, True], ids=["other-site", "other-port"])
def test_a_form_from_elsewhere_is_refused(
    browser_world: SampleWorld,
    from_same_host: bool,  # noqa: FBT001
) -> None:
    """Neither another site nor another port of this host, whose cookies are sent along, can
    make an app, even where it has got hold of the form's token."""
    page = browser_world.page("ada")
    page.goto("/apps/new")
    token = page.locator("main input[name=form_token]").get_attribute("value")
    fields = {"name": "Planted", "form_token": str(token)}
    attack = posting_page(f"{browser_world.server.origin}/apps/new", fields)
    origin = browser_world.shop_origin if from_same_host else ELSEWHERE
    serve_elsewhere(page.context, attack, origin)
    page.goto(f"{origin}/attack")
    page.wait_for_url("**/apps/new")
    expect(page.get_by_role("heading", name="The form was not accepted")).to_be_visible()
    page.goto("/apps")
    expect(page.get_by_role("heading", name="Apps")).to_be_visible()
    assert "Planted" not in page.content()


def test_nobody_is_signed_in_from_elsewhere(browser_world: SampleWorld) -> None:
    """Another site cannot sign a visitor in to an account of its own choice."""
    page = browser_world.page()
    page.goto("/login")
    fields = {"identifier": "grace", "password": PASSWORD, "form_token": "0" * 64}
    serve_elsewhere(page.context, posting_page(f"{browser_world.server.origin}/login", fields))
    page.goto(f"{ELSEWHERE}/attack")
    page.wait_for_url("**/login")
    expect(page.get_by_role("heading", name="The form was not accepted")).to_be_visible()
    page.goto("/settings")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_no_page_can_be_framed(browser_world: SampleWorld) -> None:
    """A page inside another site's frame stays blank, so nobody clicks what they cannot see."""
    page = browser_world.page("ada")
    paths = ("/login", "/settings", "/nothing-here")
    addresses = {path: f"{browser_world.server.origin}{path}" for path in paths}
    page.goto(f"{browser_world.shop_origin}/prize")
    page.evaluate(FRAME, addresses | {"theirs": f"{browser_world.shop_origin}/framed"})
    expect(page.frame_locator("[name=theirs]").get_by_role("heading")).to_be_visible()
    for path in paths:
        expect(page.locator(f"[name='{path}']")).to_have_attribute("data-loaded", "yes")
        ours = page.frame(path)
        assert ours is not None
        assert ours.url.startswith("chrome-error:")
        assert ours.locator("main").count() == 0


def test_an_allowed_origin_reads_and_others_do_not(browser_world: SampleWorld) -> None:
    """A script on a page of a registered origin gets an answer; before that, none."""
    page = browser_world.page("ada")
    shop = browser_world.browser.new_context().new_page()
    shop.goto(f"{browser_world.shop_origin}/")
    call = (
        f"fetch('{browser_world.server.base_url}/me',"
        f" {{headers: {{Authorization: 'Bearer {browser_world.sample.key}'}}}})"
        ".then(answer => answer.json()).then(me => me.username, () => 'refused')"
    )
    assert shop.evaluate(call) == "refused"
    page.goto(f"/apps/{browser_world.sample.app.id}")
    page.get_by_label("Origin").fill(browser_world.shop_origin)
    page.get_by_role("button", name="Add origin").click()
    expect(page.get_by_text(browser_world.shop_origin, exact=True)).to_be_visible()
    assert shop.evaluate(call) == "ada"


def plant_everywhere(browser_world: SampleWorld) -> tuple[Page, list[str]]:
    """Put a script into every text; return the writer's page and the paths that show it."""
    page = browser_world.page()
    page.add_init_script(CARELESS)
    email = "<svg/onload=window.planted=1>@evil.example"
    sign_up(page, "eve", Email=email, **{"Display name": f"{PLANT}{SCRIPT}"[:100]})
    app = create_app(page, PLANT)
    address = "https://evil.example/\"'><img/src=x/onerror=window.planted=1>"
    page.get_by_label("Redirect URI").fill(address)
    page.get_by_role("button", name="Add redirect URI").click()
    page.get_by_label("Origin").fill("https://evil'><svg onload=window.planted=1>.example")
    page.get_by_role("button", name="Add origin").click()
    page.get_by_label("Key name").fill(SCRIPT)
    page.get_by_role("button", name="Issue key").click()
    key = page.get_by_label("Your key").input_value()
    assert page.evaluate(PLANTED) is None
    browser_world.call("POST", "/sandbox/fund", to="@eve", amount=100)
    send_planted(browser_world, key)
    charge = planted_charge(browser_world, key)
    sign_in_from(browser_world, f"{PLANT}, 127.0.0.1")
    connect = f"/connect?client_id={app.removeprefix('/apps/')}&redirect_uri={address}"
    paths = ["/activity", "/activity/1", "/activity/2", "/apps", app, f"{app}/first-steps"]
    paths += [f"{app}/errors", f"{app}/charges", f"{app}/charges/{charge}", f"/pay/{charge}"]
    paths += ["/connections", "/settings", "/settings/history", connect]
    return page, [*paths, *reflecting_urls(PLANT), *reflecting_urls(SCRIPT)]


def send_planted(browser_world: SampleWorld, key: str) -> None:
    """Send a transfer with a script in its note and in its idempotency key."""
    transfer = {"to": "@ada", "amount": 1, "note": f"{PLANT}{SCRIPT}"}
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": SCRIPT}
    answer = httpx2.post(
        f"{browser_world.server.base_url}/transfers", json=transfer, headers=headers, verify=False
    )
    assert answer.status_code == 201, answer.text


def planted_charge(browser_world: SampleWorld, key: str) -> str:
    """Create a charge with a script in its texts, and return its id."""
    charge = {"amount": 1, "description": f"{PLANT}{SCRIPT}", "reference": SCRIPT}
    headers = {"Authorization": f"Bearer {key}"}
    answer = httpx2.post(
        f"{browser_world.server.base_url}/charges", json=charge, headers=headers, verify=False
    )
    assert answer.status_code == 201, answer.text
    created: str = json.loads(answer.text)["id"]
    return created


def sign_in_from(browser_world: SampleWorld, forwarded_for: str) -> None:
    """Fail to sign in through a proxy that says the visitor comes from this strange place."""
    with httpx2.Client(base_url=browser_world.server.origin, verify=False) as client:
        page = client.get("/login").text
        token = re.findall(r'name="form_token" value="(\w+)"', page)[0]
        fields = {"form_token": token, "identifier": "eve", "password": "wrong", "next": "/"}
        headers = {"X-Forwarded-For": forwarded_for, "User-Agent": SCRIPT}
        assert client.post("/login", data=fields, headers=headers).status_code == 400


def test_a_planted_script_never_runs(browser_world: SampleWorld) -> None:
    """Whatever people write shows as they wrote it, on every page that shows it."""
    page, paths = plant_everywhere(browser_world)
    shown = 0
    for path in paths:
        answer = page.request.get(path, headers={"Accept": "text/html"})
        planted, text = page.evaluate(PARSE, answer.text())
        assert planted == [], path
        shown += "window.planted" in text
    assert shown >= 15

    said: list[str] = []
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("console", lambda line: said.append(f"{page.url}: {line.text}"))
    page.on("pageerror", lambda error: said.append(f"{page.url}: {error}"))
    for path in (paths[0], paths[-1]):
        page.goto(path)
        assert page.evaluate(PLANTED) is None, path
    assert said == []


def test_what_others_planted_never_runs(browser_world: SampleWorld) -> None:
    """The recipient of a hostile note sees it as text, in the list, on its page, in the file."""
    page = browser_world.page("ada")
    page.goto("/activity")
    assert PLANT in page.inner_text("main")
    assert page.evaluate(PLANTED) is None
    page.get_by_role("link").filter(has=page.locator("time")).first.click()
    expect(page.get_by_text(PLANT).first).to_be_visible()
    assert page.evaluate(PLANTED) is None
