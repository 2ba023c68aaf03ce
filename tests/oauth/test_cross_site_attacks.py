"""Another site cannot frame, submit or read the consent page, so nobody is tricked into consent.

The other site stands on another host, whose requests come without the session's cookie, and on
another port of the same host, whose requests come with it.
"""

import json
from collections.abc import Iterator
from html import escape

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser_world import SampleWorld
from tests.support.site import Site

pytestmark = pytest.mark.slow

FRAMES = {"iframe": "src", "embed": "src", "object": "data"}
FETCH = """([address, options]) => {
  if (options.method === "POST") options.body = new URLSearchParams({decision: "allow"});
  return fetch(address, options).then(() => "read", () => "refused");
}"""
from_both = pytest.mark.parametrize("same_host", [True, False], ids=["other-port", "other-host"])


@pytest.fixture
def page(browser_world: SampleWorld) -> Iterator[Page]:
    """A page of someone who is signed in; in the end no code was given to anyone."""
    codes = browser_world.count_codes()
    yield browser_world.page("grace")
    browser_world.close_pages()
    assert browser_world.count_codes() == codes


@pytest.fixture(scope="module")
def trap() -> Iterator[Site]:
    """The other site."""
    with Site().open() as opened:
        yield opened


def lure(page: Page, trap: Site, html: str, *, same_host: bool) -> None:
    """Open the other site, which shows this."""
    trap.html = html
    page.goto(trap.origin if same_host else trap.origin.replace("127.0.0.1", "localhost"))


@from_both
def test_it_cannot_be_framed(
    browser_world: SampleWorld, trap: Site, page: Page, *, same_host: bool
) -> None:
    """Inside another site the page stays blank, while the site's own frames show."""
    frames = "".join(
        f'<{tag} {attribute}="{escape(address)}"></{tag}>'
        for tag, attribute in FRAMES.items()
        for address in (browser_world.connect_url(), browser_world.callback)
    )

    lure(page, trap, frames, same_host=same_host)
    page.wait_for_load_state("networkidle")

    shown = [frame.locator("body").inner_text() for frame in page.frames[1:]]
    assert sum("Welcome back" in text for text in shown) == len(FRAMES), shown
    assert not any("Ousel" in text for text in shown), shown


@from_both
@pytest.mark.parametrize("referrer", ["unsafe-url", "no-referrer"])
def test_it_cannot_be_answered(
    browser_world: SampleWorld, trap: Site, page: Page, referrer: str, *, same_host: bool
) -> None:
    """A form of another site is refused, even one that has the page's own secret in it."""
    page.goto(browser_world.connect_url())
    token = page.locator("main input[name=form_token]").first.get_attribute("value")
    inputs = f'<input name="decision" value="allow"><input name="form_token" value="{token}">'
    form = (
        f'<meta name="referrer" content="{referrer}">'
        f'<form method="post" action="{escape(browser_world.connect_url())}">{inputs}</form>'
        "<script>document.forms[0].submit()</script>"
    )

    lure(page, trap, form, same_host=same_host)

    expect(page.get_by_role("heading", name="The form was not accepted")).to_be_visible()
    assert page.url == browser_world.connect_url()


@from_both
def test_it_cannot_be_read_or_answered_by_a_script(
    browser_world: SampleWorld, trap: Site, page: Page, *, same_host: bool
) -> None:
    """A script of another site neither gets to see the page nor sends a yes that counts."""
    lure(page, trap, "<h1>Trap</h1>", same_host=same_host)

    read = page.evaluate(FETCH, [browser_world.connect_url(), {"credentials": "include"}])
    with page.expect_response(lambda response: response.request.method == "POST") as answer:
        sent = {"method": "POST", "mode": "no-cors", "credentials": "include"}
        page.evaluate(FETCH, [browser_world.connect_url(), sent])

    assert read == "refused"
    assert answer.value.status == 403


@from_both
def test_an_opened_window_cannot_be_controlled(
    browser_world: SampleWorld, trap: Site, page: Page, *, same_host: bool
) -> None:
    """A site that opens the page in a window can neither read it nor navigate it."""
    script = f"opened = window.open({json.dumps(browser_world.connect_url())})"
    button = f'<button onclick="{escape(script)}">Open</button>'
    lure(page, trap, button, same_host=same_host)

    with page.expect_popup() as popup:
        page.get_by_role("button", name="Open").click()
    expect(popup.value.get_by_role("button", name="Allow")).to_be_visible()
    reach = page.evaluate("[opened.closed, opened.length]")

    assert reach == [True, 0]
    assert popup.value.evaluate("window.opener") is None
