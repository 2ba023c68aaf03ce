"""Somebody new confirms an email in a browser, by link and by code, and changes it."""

import pytest
from playwright.sync_api import expect

from tests.support.accounts import unique_name
from tests.support.browser import code_sent_to, sign_in, sign_up
from tests.support.browser_world import SampleWorld
from tests.support.visitor import PASSWORD

pytestmark = pytest.mark.slow


def test_a_link_confirms_the_email_of_somebody_new(browser_world: SampleWorld) -> None:
    """From the activity to the mail of the sandbox, and by its link to a confirmed email."""
    username = unique_name()
    page = browser_world.page()
    sign_up(page, username)
    page.get_by_role("link", name="Confirm your email").click()
    page.get_by_role("link", name="Mail of this sandbox").click()
    page.get_by_role("link", name="/verify-email?token=").first.click()
    expect(page.get_by_text(f"@{username}", exact=True).first).to_be_visible()

    page.get_by_role("button", name="Confirm email").click()

    expect(page.get_by_text(f"{username}@example.com is confirmed")).to_be_visible()
    page.context.clear_cookies()
    sign_in(page, f"{username}@example.com")
    page.wait_for_url("**/activity")
    expect(page.get_by_role("link", name="Confirm your email")).to_have_count(0)
    page.context.close()


def test_codes_confirm_the_first_email_and_a_new_one(browser_world: SampleWorld) -> None:
    """Without scripts. Afterwards the new email finds the account, and the old one nobody."""
    username = unique_name()
    old, new = f"{username}@example.com", f"{username}@new.example"
    page = browser_world.page(java_script_enabled=False)
    sign_up(page, username)
    code = code_sent_to(page, old)
    page.goto("/verify-email")
    page.get_by_label("Code").fill(code)
    page.get_by_role("button", name="Confirm email").click()
    expect(page.get_by_text(f"{old} is confirmed")).to_be_visible()

    page.goto("/settings")
    page.get_by_role("link", name="Change email").click()
    page.get_by_label("New email").fill(new)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Change email").click()
    expect(page.get_by_text(f"on its way to {new}")).to_be_visible()
    code = code_sent_to(page, new)
    page.goto("/verify-email")
    page.get_by_label("Code").fill(code)
    page.get_by_role("button", name="Confirm email").click()
    expect(page.get_by_text(f"{new} is confirmed")).to_be_visible()

    assert browser_world.call("GET", f"/accounts/{new}")["username"] == username
    with pytest.raises(AssertionError, match="account_not_found"):
        browser_world.call("GET", f"/accounts/{old}")
    page.context.close()
