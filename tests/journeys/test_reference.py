"""The API reference in a browser: a partner fills in a key, runs calls, and downloads them all."""

import json

import pytest
from playwright.sync_api import Page, expect

from tests.support.accounts import unique_name
from tests.support.browser_world import SampleWorld

pytestmark = pytest.mark.slow

LANGUAGES = ("curl", "Python", "TypeScript")


def open_filled(page: Page) -> None:
    """Open the page of an endpoint, and fill in a key."""
    page.goto("/docs/api")
    page.get_by_role("link", name="POST /transfers").click()
    page.get_by_role("button", name="Fill in my key").click()
    for language in LANGUAGES:
        example = page.get_by_role("region", name=f"Example in {language}")
        expect(example).to_contain_text("sk_test_")


def run(page: Page, key: str, amount: str) -> None:
    """Run a transfer."""
    page.get_by_label("Idempotency-Key").fill(key)
    page.get_by_label("Body").fill(f'{{"to": "@grace", "amount": {amount}}}')
    page.get_by_role("button", name="Run").click()


def test_a_call_is_made_and_made_again(browser_world: SampleWorld) -> None:
    """The second time, the page shows that it is a replay; the address never has the key."""
    page = browser_world.page("ada")
    open_filled(page)
    key = unique_name()

    run(page, key, "1.50")
    answer = page.get_by_role("region", name="Answer")
    expect(page.get_by_text("201 Created")).to_be_visible()
    expect(answer).to_contain_text('"amount": 1.50')
    run(page, key, "1.5")
    expect(page.get_by_text("200 OK")).to_be_visible()
    expect(answer).to_contain_text("idempotent-replayed: true")

    assert page.url.removeprefix(browser_world.server.origin) == "/docs/api/createTransfer#answer"
    moved = browser_world.call("GET", f"/transfers?idempotency_key={key}")["data"]
    assert [each["amount"] for each in moved] == [1.5]


def test_the_collection_is_a_file_to_keep(browser_world: SampleWorld) -> None:
    """It is downloaded under the name by which programs know its format."""
    page = browser_world.page()
    page.goto("/docs/api")
    with page.expect_download() as downloading:
        page.get_by_role("link", name="Download the collection").click()

    assert downloading.value.suggested_filename == "ousel.postman_collection.json"
    assert json.loads(downloading.value.path().read_text())["info"]["name"] == "Ousel"
