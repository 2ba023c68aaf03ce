"""Every state of the portal that takes steps to reach, including errors."""

import pytest
from playwright.sync_api import Page

from tests.journeys.page_reports import (
    PageMonitor,
    PageReport,
    console_errors,
    other_hosts,
    too_wide,
    violations,
)
from tests.journeys.page_states import (
    SENDING,
    SIGNED_IN,
    SIGNED_OUT,
    WITH_SECOND_FACTOR,
    State,
    identity_checks,
)
from tests.support.browser import sign_up
from tests.support.browser_world import SampleWorld

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def reports(browser_world: SampleWorld) -> dict[str, PageReport]:
    """A report on each state, without its weight, which would include the steps to it."""
    newcomer = browser_world.page()
    questions = identity_checks(browser_world.forget_identity_checks)
    sign_up(newcomer, "newcomer")
    return (
        _report_on(browser_world.page(), SIGNED_OUT)
        | _report_on(newcomer, SIGNED_IN)
        | _report_on(browser_world.page(), WITH_SECOND_FACTOR)
        | _report_on(browser_world.page("grace"), SENDING)
        | _report_on(browser_world.page(), questions)
    )


def _report_on(page: Page, states: dict[str, State]) -> dict[str, PageReport]:
    found = {}
    monitor = PageMonitor(page)
    for name, reach in states.items():
        reach(page)
        found[name] = monitor.report()
        monitor.reset()
    page.context.close()
    return found


def test_every_state_is_reported(reports: dict[str, PageReport]) -> None:
    """No state is left out."""
    questions = identity_checks(lambda: None)
    assert set(reports) == {*SIGNED_OUT, *SIGNED_IN, *WITH_SECOND_FACTOR, *SENDING, *questions}


def test_every_state_is_accessible(reports: dict[str, PageReport]) -> None:
    """Axe finds no violation, in light and in dark, in error states too."""
    assert violations(reports) == {}


def test_no_state_scrolls_sideways(reports: dict[str, PageReport]) -> None:
    """No page is too wide for any screen, even with the longest texts and amounts."""
    assert too_wide(reports) == {}


def test_no_state_loads_from_another_host(
    reports: dict[str, PageReport], browser_world: SampleWorld
) -> None:
    """A page loads from no host but the portal's own."""
    assert other_hosts(reports, browser_world.server.origin) == {}
    assert all(each.hosts for each in reports.values())


def test_no_state_breaks_its_own_policy(reports: dict[str, PageReport]) -> None:
    """The browser's console is empty: no blocked style, no failing script."""
    assert console_errors(reports) == {}
