"""Sending money in a browser, with scripts and without."""

import re
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import balance_on
from tests.support.browser_world import SampleWorld

pytestmark = pytest.mark.slow

SEND = "Send 25.00 OUSD"
ZONE = "Asia/Kathmandu"  # its hours differ from UTC by 5:45
NO_SCRIPTS: dict[str, Any] = {"java_script_enabled": False}


def open_confirmation(page: Page) -> None:
    """Go from the activity to the confirmation page."""
    page.goto("/activity")
    page.get_by_role("main").get_by_role("link", name="Send", exact=True).click()
    page.get_by_label("To").fill("@ada")
    page.get_by_label("Amount").fill("25")
    page.get_by_label("Note").fill("Lunch")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("heading", name="Send to Ada Lovelace")).to_be_visible()


def test_a_double_click_a_reload_and_going_back_send_once(browser_world: SampleWorld) -> None:
    """Without scripts. The receipt stays the same, and the page before it says it was sent.

    After a double click, the receipt may also say that this was sent already.
    """
    page = browser_world.page("grace", **NO_SCRIPTS)
    before = balance_on(page)
    open_confirmation(page)

    page.reload()
    page.get_by_role("button", name=SEND).dblclick()
    expect(page.get_by_text("Ada Lovelace has received 25.00 OUSD")).to_be_visible()
    page.reload()
    expect(page.get_by_text("Ada Lovelace has received 25.00 OUSD")).to_be_visible()
    page.go_back()
    expect(page.get_by_text("You have sent this already")).to_be_visible()

    assert balance_on(page) == pytest.approx(before - 25)


def test_times_are_in_the_readers_zone(browser_world: SampleWorld) -> None:
    """Where the browser has scripts and a zone; otherwise they are in UTC."""
    zoned = browser_world.page("grace", timezone_id=ZONE, locale="en-GB")
    plain = browser_world.page("grace", timezone_id=ZONE, **NO_SCRIPTS)
    for page in (zoned, plain):
        page.goto("/activity/1")
    moment = datetime.fromisoformat(str(plain.locator("time").get_attribute("datetime")))
    local = moment.astimezone(ZoneInfo(ZONE))

    expect(plain.locator("time")).to_have_text(f"{moment:%Y-%m-%d %H:%M} UTC")
    expect(zoned.locator("time")).to_have_text(re.compile(rf"^{local.day} .+, {local:%H:%M}$"))
