"""Somebody who has forgotten the password sets a new one in a browser."""

import pytest
from playwright.sync_api import Page, expect

from tests.support.accounts import unique_name
from tests.support.browser import fill_in_sign_in, sign_up
from tests.support.browser_world import SampleWorld

pytestmark = pytest.mark.slow

NEW_PASSWORD = "a better horse battery"


def confirm_email(page: Page) -> None:
    """Confirm the email of somebody who has just signed up."""
    page.get_by_role("link", name="Confirm your email").click()
    page.get_by_role("link", name="Mail of this sandbox").click()
    page.get_by_role("link", name="/verify-email?token=").first.click()
    page.get_by_role("button", name="Confirm email").click()
    expect(page.get_by_text("is confirmed")).to_be_visible()


def test_a_forgotten_password_is_replaced(browser_world: SampleWorld) -> None:
    """From the sign-in page to the mail of the sandbox, and by its link to a new password."""
    username = unique_name()
    page = browser_world.page()
    sign_up(page, username)
    confirm_email(page)
    phone = browser_world.page()

    phone.goto("/login")
    phone.get_by_role("link", name="Forgot your password?").click()
    phone.get_by_label("Email or username").fill(username)
    phone.get_by_role("button", name="Send a link").click()
    expect(phone.get_by_text("a link is on its way")).to_be_visible()
    phone.goto(f"/sandbox/mail?to={username}@example.com")
    phone.get_by_role("link", name="/reset?token=").first.click()
    expect(phone.get_by_text(f"@{username}")).to_be_visible()
    phone.get_by_label("New password").fill(NEW_PASSWORD)
    phone.get_by_role("button", name="Set password").click()
    expect(phone.get_by_text("Your new password is set")).to_be_visible()

    page.goto("/settings")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()  # the session has ended
    fill_in_sign_in(phone, username, NEW_PASSWORD)
    phone.wait_for_url("**/activity")
    phone.goto(f"/sandbox/mail?to={username}@example.com")
    for subject in ("New sign-in to your Ousel", "The password of your Ousel"):
        expect(phone.get_by_role("heading", name=subject)).to_be_visible()
    page.context.close()
    phone.context.close()
