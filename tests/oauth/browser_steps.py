"""Steps of a person in a browser who connects an account to an app."""

from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, expect


def allow(page: Page) -> str:
    """Press Allow, and return the address on the app's site that this leads to."""
    page.get_by_role("button", name="Allow").click()
    return wait_for_app(page)


def wait_for_app(page: Page) -> str:
    """Wait until the app's site is open, and return its address."""
    expect(page.get_by_role("heading", name="Welcome back")).to_be_visible()
    return page.url


def returned_parameters(url: str) -> dict[str, list[str]]:
    """Return the parameters that came back to the app."""
    return parse_qs(urlsplit(url).query)
