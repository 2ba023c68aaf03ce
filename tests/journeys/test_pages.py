"""Every page of the portal: accessible, of any width, and light."""

from collections.abc import Callable

import pytest

from tests.journeys.page_reports import (
    PageMonitor,
    PageReport,
    console_errors,
    other_hosts,
    too_heavy,
    too_wide,
    violations,
)
from tests.support.browser import sign_up
from tests.support.browser_world import SampleWorld

pytestmark = pytest.mark.slow

WEIGHT_BYTES_MAX = 100_000

Tell = Callable[[str, object], None]


@pytest.fixture(scope="module")
def reports(browser_world: SampleWorld) -> dict[str, PageReport]:
    """A report on each page."""
    _add_extreme_texts(browser_world)
    widest = {"activity-widest": "/activity", "movement-widest": "/activity/2"}
    return (
        _report_on(browser_world, None, browser_world.sample.open_paths())
        | _report_on(browser_world, "ada", browser_world.sample.paths())
        | _report_on(browser_world, "wide", widest)
    )


def _add_extreme_texts(browser_world: SampleWorld) -> None:
    """Add the longest texts and the largest amounts to the sample data."""
    page = browser_world.page()
    sign_up(page, "wide", **{"Display name": "W" * 100})
    page.context.close()
    browser_world.call("POST", "/sandbox/fund", to="@wide", amount=999_999_999)
    browser_world.call("POST", "/transfers", to="@wide", amount=0.999999, note="W" * 500)


def _report_on(
    browser_world: SampleWorld, username: str | None, paths: dict[str, str]
) -> dict[str, PageReport]:
    """Report on pages that are reached by their address."""
    found = {}
    page = browser_world.page(username)
    monitor = PageMonitor(page)
    for name, path in paths.items():
        page.goto("about:blank")
        monitor.reset()
        page.goto(path)
        found[name] = monitor.report_with_weight()
    page.context.close()
    return found


def test_every_page_is_reported(reports: dict[str, PageReport], browser_world: SampleWorld) -> None:
    """No page is left out, and each loads its document, style, script and icon."""
    assert set(reports) >= {*browser_world.sample.open_paths(), *browser_world.sample.paths()}
    assert all(each.requests >= 3 for each in reports.values()), reports


def test_every_page_is_accessible(reports: dict[str, PageReport]) -> None:
    """Axe finds no violation, in light and in dark."""
    assert violations(reports) == {}


def test_no_page_scrolls_sideways(reports: dict[str, PageReport]) -> None:
    """No page is too wide for any screen, even with the longest texts and amounts."""
    assert too_wide(reports) == {}


def test_every_page_is_light(reports: dict[str, PageReport], record_property: Tell) -> None:
    """A page weighs under 100 KB before compression, in at most 8 requests."""
    weights = {name: (each.weight_bytes, each.requests) for name, each in reports.items()}
    heaviest = sorted(weights.items(), key=lambda item: item[1], reverse=True)[:5]
    record_property("figure", f"heaviest pages, in bytes and requests: {dict(heaviest)}")
    assert too_heavy(reports, WEIGHT_BYTES_MAX) == {}


def test_no_page_loads_from_another_host(
    reports: dict[str, PageReport], browser_world: SampleWorld
) -> None:
    """A page loads from no host but the portal's own."""
    assert other_hosts(reports, browser_world.server.origin) == {}
    assert all(each.hosts for each in reports.values())


def test_no_page_breaks_its_own_policy(reports: dict[str, PageReport]) -> None:
    """The browser's console is empty: no blocked style, no failing script."""
    assert console_errors(reports) == {}
