"""Fixtures for journeys in a browser."""

from collections.abc import Iterator

import pytest

from tests.journeys.checkout_pages import CheckoutPage, create_checkout_pages
from tests.support.browser import run_in_thread
from tests.support.browser_world import SampleWorld


@pytest.fixture(scope="module")
def checkout_pages(browser_world: SampleWorld) -> dict[str, CheckoutPage]:
    """The checkout page in every state, by name."""
    return run_in_thread(create_checkout_pages(browser_world.database_url, browser_world.sample))


@pytest.fixture(autouse=True)
def _close_pages(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "browser_world" in request.fixturenames:
        request.getfixturevalue("browser_world").close_pages()
