"""One browser and one sandbox for all journeys; each test uses charges and names of its own."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.journeys.checkout_pages import CheckoutPage, create_checkout_pages
from tests.support.browser import chromium, run_in_thread
from tests.support.browser_world import SampleWorld, run_browser_world


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A browser for all journeys."""
    with chromium() as running:
        yield running


@pytest.fixture(scope="package")
def browser_world(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SampleWorld]:
    """A sandbox with sample data, a shop and the browser, for all journeys."""
    folder = tmp_path_factory.mktemp("browser")
    with run_browser_world(SampleWorld, browser, folder, "--sandbox") as running:
        yield running


@pytest.fixture(scope="package")
def checkout_pages(browser_world: SampleWorld) -> dict[str, CheckoutPage]:
    """The checkout page in every state, by name."""
    return run_in_thread(create_checkout_pages(browser_world.database_url, browser_world.sample))


@pytest.fixture(autouse=True)
def _close_pages(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "browser" in request.fixturenames:
        for context in request.getfixturevalue("browser").contexts:
            context.close()
