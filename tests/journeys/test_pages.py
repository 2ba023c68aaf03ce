"""Every page of the portal in every state: accessible, of any width, and light."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, expect

from tests.journeys.page_reports import PageReport, PageWindow, assets_of
from tests.journeys.page_states import PageStates, visit_all
from tests.support.browser import run_in_thread

pytestmark = pytest.mark.slow

WEIGHT_BYTES_MAX = 100_000
CHECKOUT_WEIGHT_BYTES_MAX = 60_000
REQUESTS_MAX = 8

Tell = Callable[[str, object], None]


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> PageStates:
    """The answers of the service, by the name of the page."""
    return run_in_thread(visit_all(str(tmp_path_factory.mktemp("pages") / "ousel.db")))


@pytest.fixture(scope="module")
def window(browser: Browser, states: PageStates) -> PageWindow:
    """A window that shows them."""
    return PageWindow(browser, states.answers["login"], states.assets)


@pytest.fixture(scope="module")
def reports(states: PageStates, window: PageWindow) -> dict[str, PageReport]:
    """A report on each page."""
    found = {name: window.report(answer.text) for name, answer in states.answers.items()}
    window.show(states.answers["app-issued-key"].text)
    expect(window.page.get_by_role("button", name="Copy")).to_be_visible()  # by its script
    return found


def test_every_page_is_accessible(reports: dict[str, PageReport]) -> None:
    """Axe finds no violation, in light and in dark, in error states too."""
    assert {name: each.violations for name, each in reports.items() if each.violations} == {}


def test_no_page_scrolls_sideways(reports: dict[str, PageReport]) -> None:
    """No page is too wide for any screen, even with the longest texts and amounts."""
    assert {name: each.too_wide_at for name, each in reports.items() if each.too_wide_at} == {}


def test_everything_stays_in_its_card(reports: dict[str, PageReport]) -> None:
    """At no width is anything wider than the card around it."""
    assert {name: each.sticking_out for name, each in reports.items() if each.sticking_out} == {}


def test_cards_beside_each_other_are_equally_high(reports: dict[str, PageReport]) -> None:
    """So that rows of cards have straight edges."""
    assert {name: each.uneven_at for name, each in reports.items() if each.uneven_at} == {}


def test_no_page_breaks_its_own_policy(reports: dict[str, PageReport], states: PageStates) -> None:
    """The browser's console is empty: no blocked style, no failing script."""
    assert {name: each.console for name, each in reports.items() if each.console} == {}
    policies = {each.headers["content-security-policy"] for each in states.answers.values()}
    assert len({policy.partition("form-action")[0] for policy in policies}) == 1


def test_no_page_loads_from_another_host(reports: dict[str, PageReport]) -> None:
    """A page loads its own style, scripts and icon, and nothing else."""
    assert {name: each.requests for name, each in reports.items() if each.requests} == {}


def test_every_page_is_light(states: PageStates, record_property: Tell) -> None:
    """A page weighs under 100 KB before compression, a checkout 60 KB, in at most 8 requests."""
    heaviest = []
    for name, answer in states.answers.items():
        urls = assets_of(answer.text)
        weight = len(answer.content) + sum(len(states.assets[url].content) for url in urls)
        limit = CHECKOUT_WEIGHT_BYTES_MAX if name in states.checkouts else WEIGHT_BYTES_MAX
        assert 10_000 < weight < limit, (name, weight)
        assert 3 <= 1 + len(urls) <= REQUESTS_MAX, (name, urls)
        heaviest.append((weight, name))
    record_property("figure", f"heaviest pages, in bytes: {sorted(heaviest)[-5:]}")
