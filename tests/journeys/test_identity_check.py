"""A browser is asked again for the password, without scripts, or for a code, with them."""

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import balance_on, code_of, sign_in, turn_on_factor
from tests.support.browser_world import SampleWorld
from tests.support.visitor import PASSWORD

pytestmark = pytest.mark.slow

NEW_PASSWORD = "a better horse battery"


def expect_question(page: Page) -> None:
    """Check that the page asks who the person is."""
    expect(page.get_by_role("heading", name="Confirm that it is you")).to_be_visible()


def test_a_large_amount_is_sent_once_after_the_password(browser_world: SampleWorld) -> None:
    """What was filled in is not lost, a wrong password sends nothing, and a double click once."""
    username = browser_world.newcomer()
    page = browser_world.page(username, java_script_enabled=False)
    browser_world.call("POST", "/sandbox/fund", to=f"@{username}", amount=2000)
    browser_world.forget_identity_checks()
    page.goto("/send?to=@ada&amount=1500&note=The rent")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("Next, we ask for your password")).to_be_visible()
    page.get_by_role("button", name="Send 1,500.00 OUSD").click()

    expect_question(page)
    page.get_by_label("Password").fill("wrong horse battery")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("This is not your password.")).to_be_visible()
    assert "rent" not in page.url
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Continue").dblclick()

    expect(page.get_by_text("Ada Lovelace has received 1,500.00 OUSD.")).to_be_visible()
    expect(page.get_by_text("The rent")).to_be_visible()
    page.reload()
    assert balance_on(page) == 500
    page.context.close()


def test_a_new_password_needs_a_code_if_a_factor_is_on(browser_world: SampleWorld) -> None:
    """Both passwords are typed once; afterwards the new one signs in, and no address has them."""
    username = browser_world.newcomer()
    page = browser_world.page(username)
    secret = turn_on_factor(page)
    browser_world.forget_identity_checks()
    page.goto("/settings")
    page.get_by_label("Current password").fill(PASSWORD)
    page.get_by_label("New password").fill(NEW_PASSWORD)
    page.get_by_role("button", name="Change password").click()

    expect_question(page)
    assert "horse" not in page.url
    expect(page.get_by_text("horse")).to_have_count(0)
    page.get_by_label("Code").fill(code_of(secret, steps_ahead=1))
    page.get_by_role("button", name="Continue").click()

    expect(page.get_by_text("Your password has been changed")).to_be_visible()
    page.context.clear_cookies()
    sign_in(page, username, NEW_PASSWORD)
    expect(page.get_by_role("heading", name="Enter your code")).to_be_visible()
    page.context.close()
