"""The lab in a browser, from choosing a rehearsal to the printed grade."""

import httpx2
import pytest
from playwright.sync_api import Page, expect

from ousel_client import Client
from tests.support.browser_world import SampleWorld

pytestmark = pytest.mark.slow

TITLE = "Answers lost after the commit"


def start(page: Page, world: SampleWorld) -> None:
    """Go from the app to its lab, and start a rehearsal."""
    page.goto(f"/apps/{world.sample.app.id}")
    page.get_by_role("link", name="Lab").click()
    expect(page.get_by_role("heading", name="Lab", exact=True)).to_be_visible()
    page.get_by_label("Rehearsal").select_option(label=TITLE)
    page.get_by_role("button", name="Start rehearsal").click()
    expect(page.get_by_text("No calls yet.")).to_be_visible()


def send_well(world: SampleWorld) -> None:
    """Send a transfer with the Python client."""
    transport = httpx2.HTTPTransport(verify=False)
    with Client(world.sample.key, base_url=world.server.base_url, transport=transport) as client:
        client.transfers.send(to="@grace", amount="1.00")


def test_a_good_client_is_graded_and_its_grade_printed(browser_world: SampleWorld) -> None:
    """The partner runs its software, reloads, finishes, and prints one page without the menus."""
    page = browser_world.page("ada")
    start(page, browser_world)

    send_well(browser_world)
    page.get_by_role("link", name="Reload").click()
    expect(page.get_by_text("carried out, and the answer was lost")).to_have_count(2)
    page.get_by_role("button", name="Finish rehearsal").click()

    expect(page.get_by_role("heading", name=TITLE)).to_be_visible()
    expect(page.get_by_text("passed", exact=True).first).to_be_visible()
    expect(page.get_by_text("Retry with the same key")).to_be_visible()
    page.emulate_media(media="print")
    expect(page.get_by_text("Retry with the same key")).to_be_visible()
    for name in ("Start rehearsal", "Print this grade"):
        expect(page.get_by_role("button", name=name)).to_be_hidden()
    assert page.pdf().startswith(b"%PDF")
