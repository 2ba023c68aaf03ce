"""The demo, clicked through as its welcome says: buy a book, connect, pay the supplier."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.cli.commands import OUSEL
from tests.cli.demos import stop_demo
from tests.support.browser import WAIT_MILLISECONDS, axe_violations, fill_in_sign_in
from tests.support.ports import free_port
from tests.support.server import wait_for_http
from tests.support.signals import signals_for_children

pytestmark = pytest.mark.slow

PASSWORD = "only-a-sandbox"
START_SECONDS_MAX = 240.0


@pytest.fixture(scope="module")
def shop_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the shop of a running demo.

    When it is terminated in the end, nothing of it is left, though browsers were connected.
    """
    folder = tmp_path_factory.mktemp("demo")
    port, shop_port = free_port(), free_port()
    command = [str(OUSEL), "demo", "--port", str(port), "--shop-port", str(shop_port)]
    environment = os.environ | {"TMPDIR": str(folder)}
    url = f"http://127.0.0.1:{shop_port}"
    with (
        signals_for_children(),
        subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as demo,
    ):
        try:
            wait_for_http(url, START_SECONDS_MAX)
            wait_for_http(f"http://127.0.0.1:{port}/readyz", START_SECONDS_MAX)
            yield url
        finally:
            stop_demo(demo, signal.SIGTERM, port, shop_port)
    assert list(folder.iterdir()) == []


@pytest.fixture
def page(browser: Browser) -> Page:
    """A page of somebody who was never here."""
    new = browser.new_page()
    new.set_default_timeout(WAIT_MILLISECONDS)
    return new


def test_a_book_is_bought_and_delivered_once(shop_url: str, page: Page) -> None:
    """The payer pays on the checkout page, comes back, and the order is delivered once."""
    page.goto(shop_url)
    page.get_by_role("button", name="Add to cart").first.click()
    page.get_by_role("button", name="Pay 12.50 OUSD").click()
    expect(page.get_by_role("heading", name="The Blackbird Bookshop")).to_be_visible()
    page.get_by_role("main").get_by_role("link", name="Sign in").click()
    fill_in_sign_in(page, "ada", PASSWORD)
    page.get_by_role("button", name="Pay 12.50 OUSD").click()
    page.wait_for_url(f"{shop_url}/orders/*")
    expect(page.get_by_text("Your books are on their way.")).to_be_visible()
    page.reload()
    expect(page.get_by_text("Your books were sent earlier.")).to_be_visible()


def test_a_person_connects_and_is_greeted(shop_url: str, page: Page) -> None:
    """After consent the shop knows the person's name and balance."""
    page.goto(shop_url)
    page.get_by_role("link", name="Connect with Ousel").click()
    fill_in_sign_in(page, "grace", PASSWORD)
    page.get_by_role("button", name="Allow").click()
    expect(
        page.get_by_text(re.compile(r"Hello, Grace Hopper. You have \d+\.\d\d OUSD."))
    ).to_be_visible()


def test_the_supplier_is_paid(shop_url: str, page: Page) -> None:
    """Its owner, connected, lets the shop pay by transfer and sees what it has left."""
    page.goto(shop_url)
    expect(page.get_by_role("button", name="Pay the supplier")).to_have_count(0)
    page.get_by_role("link", name="Connect with Ousel").click()
    fill_in_sign_in(page, "blackbird", PASSWORD)
    page.get_by_role("button", name="Allow").click()
    page.get_by_role("button", name="Pay the supplier").click()
    expect(page.get_by_role("heading", name="The supplier is paid")).to_be_visible()


def test_the_shop_is_readable(shop_url: str, page: Page) -> None:
    """Its letters stand out from what is behind them, on its buttons too, in light and in dark."""
    page.goto(shop_url)

    assert axe_violations(page, ("color-contrast",)) == []
    page.emulate_media(color_scheme="dark")
    assert axe_violations(page, ("color-contrast",)) == []
