"""Pages with long words, right-to-left names, large amounts, on touch screens and on paper."""

from typing import Any

import pytest
from playwright.sync_api import Locator, Page

from tests.journeys.checkout_pages import CheckoutPage
from tests.journeys.page_reports import OVERFLOW
from tests.support.browser import create_app
from tests.support.browser_world import SampleWorld

pytestmark = pytest.mark.slow

LONG_WORD = "Wolfeschlegelsteinhausenbergerdorff"
PHONE: dict[str, Any] = {
    "viewport": {"width": 320, "height": 700},
    "has_touch": True,
    "is_mobile": True,
}
THUMB_PIXELS = 44
LINES = "e => Math.round(e.clientHeight / parseFloat(getComputedStyle(e).lineHeight))"
HEIGHTS = """elements => elements.filter((element) => element.checkVisibility())
  .map((element) => [element.innerText, element.getBoundingClientRect().height])"""
LEFTS = """element => {
  const text = element.lastChild, range = document.createRange();
  return [...text.data].map((_, index) => {
    range.setStart(text, index);
    range.setEnd(text, index + 1);
    return range.getBoundingClientRect().left;
  });
}"""


@pytest.fixture(scope="module", autouse=True)
def _extreme_person(browser_world: SampleWorld) -> None:
    """Add somebody whose name is written from the right, with the largest amount."""
    browser_world.newcomer("007", display_name="עדה לאבלייס")
    browser_world.call("POST", "/sandbox/fund", to="@007", amount=999_999_999.999999)


def test_a_long_word_in_an_apps_name_widens_no_page(browser_world: SampleWorld) -> None:
    """It fits the checkout on a large screen and the receipt's button on a phone."""
    owner = browser_world.page("ada")
    app = create_app(owner, LONG_WORD)
    owner.get_by_label("Key name").fill("one")
    owner.get_by_role("button", name="Issue key").click()
    key = owner.get_by_label("Your key").input_value()
    answer = owner.request.post(
        f"{browser_world.server.base_url}/charges",
        headers={"Authorization": f"Bearer {key}"},
        data={"amount": 1, "success_url": f"{browser_world.shop_origin}/thanks"},
    )
    checkout = f"/pay/{answer.json()['id']}"
    assert app.startswith("/apps/")
    payer = browser_world.page("grace")

    payer.goto(checkout)
    wide = payer.locator("article.card").bounding_box()
    payer.get_by_role("button", name="Pay 1.00 OUSD").click()
    payer.wait_for_url("**/receipt**")
    payer.goto(f"{checkout}/receipt")
    payer.set_viewport_size({"width": 320, "height": 700})

    assert wide is not None
    assert wide["width"] <= 30 * 16
    assert payer.evaluate(OVERFLOW) == 0


def test_a_username_stays_as_it_is_beside_a_name_from_the_right(browser_world: SampleWorld) -> None:
    """After a Hebrew name @007 reads @007, not 007@."""
    page = browser_world.page("007")
    page.goto(f"/pay/{browser_world.charge()['id']}")
    lefts = page.locator("dl .muted", has_text="@007").evaluate(LEFTS)

    assert lefts == sorted(lefts)


def test_the_largest_amount_leaves_room_for_whom_it_came_from(browser_world: SampleWorld) -> None:
    """On the narrowest phone the counterparty's name is not squeezed to a letter a line."""
    page = browser_world.page("007", **PHONE)
    page.goto("/activity")
    name = page.locator("td.with").first.bounding_box()

    assert name is not None
    assert name["width"] >= 100


def test_an_amount_and_its_currency_share_a_line_on_a_phone(browser_world: SampleWorld) -> None:
    """Up to a hundred thousand."""
    page = browser_world.page(**PHONE)
    page.goto(f"/pay/{browser_world.charge(amount=88_888.88)['id']}")

    assert page.locator(".figure").evaluate(LINES) == 1


def test_a_key_is_shown_whole_on_a_phone(browser_world: SampleWorld) -> None:
    """It is shown only once, and somebody may have to copy it by hand."""
    page = browser_world.page("ada", **PHONE)
    create_app(page, "Narrow")
    page.get_by_label("Key name").fill("one")
    page.get_by_role("button", name="Issue key").click()

    assert page.get_by_label("Your key").evaluate("e => e.scrollHeight - e.clientHeight") == 0


def test_touch_targets_are_at_least_44_pixels_high(browser_world: SampleWorld) -> None:
    """On a phone all links and buttons outside sentences are at least 44 pixels high."""
    stranger, payer = browser_world.page(**PHONE), browser_world.page("grace", **PHONE)
    stranger.goto("/login")
    found = _too_low(stranger)
    for path in (f"/pay/{browser_world.charge()['id']}", "/activity/2", "/settings"):
        payer.goto(path)
        found |= _too_low(payer)

    assert found == {}


def test_a_row_of_movements_is_hit_anywhere(browser_world: SampleWorld) -> None:
    """On a phone a tap on the amount opens the movement."""
    page = browser_world.page("grace", **PHONE)
    page.goto("/activity")
    page.locator("td.moved").first.scroll_into_view_if_needed()
    box = page.locator("td.moved").first.bounding_box()
    assert box is not None
    page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_url("**/activity/*")


def test_a_receipt_is_printed_dark_on_white(
    browser_world: SampleWorld, checkout_pages: dict[str, CheckoutPage]
) -> None:
    """A print from the dark scheme is dark on white, and its times have a zone."""
    page = browser_world.page("grace", color_scheme="dark")
    page.goto(checkout_pages["receipt"].path)
    page.emulate_media(media="print")
    label = page.locator("dl.facts dt").first
    zone = page.locator("dl.facts time").evaluate("e => getComputedStyle(e, '::after').content")

    assert _colour(label) == "rgb(86, 99, 106)"
    assert "UTC" in str(zone)


def _colour(element: Locator) -> str:
    return str(element.evaluate("element => getComputedStyle(element).color"))


def _too_low(page: Page) -> dict[str, float]:
    """Return the heights of links and buttons that stand alone and are too small for a thumb."""
    alone = page.locator("a:not(.skip):not(p.muted a), button, summary")
    heights: list[tuple[str, float]] = alone.evaluate_all(HEIGHTS)
    return {f"{page.url} {text}": height for text, height in heights if height < THUMB_PIXELS}
