"""Short words for journeys: someone at a page, signed in, with or without a second factor."""

import time
from typing import Any

from playwright.sync_api import Browser, Page, expect

from ousel.people.rules import CODE_STEP_SECONDS, one_time_code
from tests.journeys.furnished import PASSWORD
from tests.support.servers import Server

WAIT_MILLISECONDS = 30_000


def new_page(browser: Browser, server: Server, **options: Any) -> Page:
    """Return a page of a browser that has never been here."""
    context = browser.new_context(base_url=server.origin, **options)
    context.set_default_timeout(WAIT_MILLISECONDS)
    return context.new_page()


def signed_in_page(browser: Browser, server: Server, username: str, **options: Any) -> Page:
    """Return a page in whose browser this person, who has the usual password, is signed in."""
    page = new_page(browser, server, **options)
    sign_in(page, username)
    page.wait_for_url("**/activity")
    return page


def sign_in(page: Page, identifier: str, password: str = PASSWORD) -> None:
    """Fill in the sign-in form and send it."""
    page.goto("/login")
    page.get_by_label("Email or username").fill(identifier)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def sign_up(page: Page, username: str, **fields: str) -> None:
    """Create an account, and arrive at its activity."""
    page.goto("/signup")
    filled = {
        "Username": username,
        "Email": f"{username}@example.com",
        "Display name": username.title(),
        "Password": PASSWORD,
    }
    for label, value in (filled | fields).items():
        page.get_by_label(label).fill(value)
    page.get_by_role("button", name="Create account").click()
    page.wait_for_url("**/activity")


def create_app(page: Page, name: str) -> str:
    """Create an app, and return its path, whose page is open then."""
    page.goto("/apps/new")
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Create app").click()
    expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()
    return page.url.removeprefix(page.url.partition("/apps/")[0])


def turn_on_factor(page: Page) -> str:
    """Turn two-factor sign-in on, and return its secret; the recovery codes are shown then."""
    page.goto("/settings/two-factor")
    secret = page.get_by_label("Or type this secret into it").input_value()
    page.get_by_label("Code", exact=True).fill(code_of(secret))
    page.get_by_role("button", name="Turn on").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    return secret


def code_of(secret: str, steps_ahead: int = 0) -> str:
    """Return what an authenticator app with this secret shows, now or some steps from now."""
    return one_time_code(secret, int(time.time()) // CODE_STEP_SECONDS + steps_ahead)
