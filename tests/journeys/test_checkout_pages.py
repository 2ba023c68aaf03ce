"""Every state of the checkout page: accessible, of any width, and light."""

import pytest

from tests.journeys.checkout_pages import CheckoutPage
from tests.journeys.page_reports import PageMonitor, PageReport, too_heavy, too_wide, violations
from tests.support.browser_world import SampleWorld

pytestmark = pytest.mark.slow

WEIGHT_BYTES_MAX = 60_000
LONGEST = {"amount": 999_999_999.999999, "description": "W" * 500, "reference": "W" * 200}


@pytest.fixture(scope="module")
def reports(
    browser_world: SampleWorld, checkout_pages: dict[str, CheckoutPage]
) -> dict[str, PageReport]:
    """A report on each page."""
    long = browser_world.charge(**LONGEST)["id"]
    visited = checkout_pages | {
        "longest": CheckoutPage("mary", f"/pay/{long}"),
        "longest-of-owner": CheckoutPage(
            "ada", f"/apps/{browser_world.sample.app.id}/charges/{long}"
        ),
    }
    found: dict[str, PageReport] = {}
    for username in {each.username for each in visited.values()}:
        first = browser_world.page(username)
        for name, each in visited.items():
            if each.username == username:
                page = first.context.new_page()
                monitor = PageMonitor(page)
                page.goto(each.path)
                found[name] = monitor.report_with_weight()
                page.close()
        first.context.close()
    return found


def test_every_state_is_reported(
    reports: dict[str, PageReport], checkout_pages: dict[str, CheckoutPage]
) -> None:
    """No page is left out, and each loads its document, style, scripts and icon."""
    assert set(reports) >= set(checkout_pages)
    assert all(each.requests >= 3 for each in reports.values()), reports
    assert all(each.weight_bytes > 10_000 for each in reports.values()), reports


def test_every_state_is_accessible(reports: dict[str, PageReport]) -> None:
    """Axe finds no violation, in light and in dark."""
    assert violations(reports) == {}


def test_no_state_scrolls_sideways(reports: dict[str, PageReport]) -> None:
    """No page is too wide for any screen, even with the longest texts and amounts."""
    assert too_wide(reports) == {}


def test_no_state_breaks_its_own_policy(reports: dict[str, PageReport]) -> None:
    """The browser's console is empty, except that an unknown charge is not found."""
    complaints = {name: each.console for name, each in reports.items() if each.console}
    [not_found] = complaints.pop("unknown")

    assert "404" in not_found
    assert complaints == {}


def test_every_state_is_light(reports: dict[str, PageReport]) -> None:
    """A page loads less than 60 KB before compression, in at most 8 requests."""
    assert too_heavy(reports, WEIGHT_BYTES_MAX) == {}
