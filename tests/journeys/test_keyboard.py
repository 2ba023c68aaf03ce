"""Keyboard use: the order of focus, the skip link, and signing in."""

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import turn_on_factor
from tests.support.browser_world import SampleWorld
from tests.support.visitor import PASSWORD

pytestmark = pytest.mark.slow

FOCUSED = """() => {
  const element = document.activeElement;
  const name = element.labels?.[0]?.textContent ?? element.textContent;
  return name.trim();
}"""
HAS_OUTLINE = """() => {
  const style = getComputedStyle(document.activeElement);
  return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
}"""


def tabbed(page: Page, times: int) -> list[str]:
    """Press Tab so often, and return the name of what has the focus each time."""
    names = []
    for _ in range(times):
        page.keyboard.press("Tab")
        names.append(str(page.evaluate(FOCUSED)))
        assert page.evaluate(HAS_OUTLINE), f"the focus on {names[-1]} cannot be seen"
    return names


def test_sign_in_by_keys_alone(browser_world: SampleWorld) -> None:
    """The focus goes from the skip link over the menu through the form, and Enter sends it."""
    page = browser_world.page()
    page.goto("/login")
    assert tabbed(page, 5) == [
        "Skip to the content",
        "Ousel",
        "Sign in",
        "Sign up",
        "Email or username",
    ]
    page.keyboard.type("ada")
    assert tabbed(page, 1) == ["Password"]
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url("**/activity")


def test_the_skip_link_leads_past_the_menu(browser_world: SampleWorld) -> None:
    """It is the first stop, shows itself there, and the next stop is in the content."""
    page = browser_world.page("ada")
    page.goto("/activity")
    link = page.get_by_role("link", name="Skip to the content")
    expect(link).not_to_be_in_viewport()
    assert tabbed(page, 1) == ["Skip to the content"]
    expect(link).to_be_in_viewport()
    page.keyboard.press("Enter")
    assert tabbed(page, 1) == ["Send"]


def test_everything_on_an_apps_page_can_be_reached(browser_world: SampleWorld) -> None:
    """Each link, field and button takes the focus, in the order in which they stand."""
    page = browser_world.page("ada")
    page.goto(f"/apps/{browser_world.sample.app.id}")
    selector = "main :is(a, button:not([hidden]), select, input:not([type=hidden]))"
    count = page.locator(selector).count()
    assert count >= 12
    page.locator(selector).first.focus()
    for number in range(1, count):
        page.keyboard.press("Tab")
        focused = page.locator(selector).nth(number).evaluate("e => e === document.activeElement")
        assert focused, f"stop {number} is elsewhere"
        assert page.evaluate(HAS_OUTLINE)


def test_an_error_is_told_with_its_field(browser_world: SampleWorld) -> None:
    """The field at fault is marked as such, and what is wrong is its description.

    The title, which a screen reader reads first, begins with it.
    """
    page = browser_world.page("ada")
    page.goto("/apps/new")
    page.get_by_label("Name").fill(" ")
    page.keyboard.press("Enter")
    expect(page).to_have_title("Error: New app · Ousel")
    field = page.get_by_role("textbox", name="Name")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_accessible_description(
        "The name must be 1 to 80 printable characters. Payers and people who connect will see it."
    )


def test_recovery_codes_are_copied(browser_world: SampleWorld) -> None:
    """The button says so itself, also to a screen reader."""
    page = browser_world.page(
        browser_world.newcomer(), permissions=["clipboard-read", "clipboard-write"]
    )
    turn_on_factor(page)
    page.get_by_role("button", name="Copy").press("Enter")

    done = page.get_by_role("button", name="Copied")
    expect(done).to_be_focused()
    expect(done).to_have_attribute("aria-live", "polite")
    codes = page.locator("pre").inner_text()
    assert page.evaluate("navigator.clipboard.readText()").strip() == codes.strip()
