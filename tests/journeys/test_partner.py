"""A partner's whole journey, from signing up to changing the password."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from ousel.accounts.service import find_account
from ousel.database.addresses import open_database
from ousel.kernel.clock import system_clock
from ousel.ledger.funding import fund_account
from tests.support.browser import (
    code_of,
    create_app,
    run_in_thread,
    sign_in,
    sign_up,
)
from tests.support.browser_world import BrowserWorld, SampleWorld, run_browser_world
from tests.support.visitor import PASSWORD

pytestmark = pytest.mark.slow

NEW_PASSWORD = "a better horse battery"
ELSEWHERE = "https://shop.example"


@pytest.fixture
def live_world(browser: Browser, tmp_path: Path) -> Iterator[BrowserWorld]:
    """A live server without accounts."""
    with run_browser_world(BrowserWorld, browser, tmp_path) as running:
        yield running


def call(world: BrowserWorld, key: str, **headers: str) -> httpx2.Response:
    """Call /me with this key."""
    authorized = {"Authorization": f"Bearer {key}"} | headers
    return httpx2.get(f"{world.server.base_url}/me", headers=authorized, verify=False)


def status(world: BrowserWorld, key: str, **headers: str) -> int:
    """Return the status with which /me answers this key."""
    return call(world, key, **headers).status_code


def test_from_signing_up_to_a_changed_password(live_world: BrowserWorld) -> None:
    """Sign up, create an app, issue a key and call with it, allow an origin, rotate, revoke,
    download the movements, change the password."""
    world = live_world
    username = "ada"
    page = world.page()
    sign_up(page, username)
    expect(page.get_by_text("No movements yet")).to_be_visible()
    app = create_app(page, "Analytical Engines")
    secret = turn_on_factor_when_asked(page, app)
    key = issue_key(page, world, username)
    allow_an_origin(page, world, key)
    newest = rotate_twice(page, world, key)
    revoke(page, world, newest)
    download(page, world, username)
    change_password(page, world, username, secret)
    page.context.close()


def turn_on_factor_when_asked(page: Page, app: str) -> str:
    """Try to issue a live key, and follow the page to two-factor sign-in and back."""
    page.get_by_label("Key name").fill("too early")
    page.get_by_role("button", name="Issue key").click()
    expect(page.get_by_role("alert")).to_contain_text("two-factor sign-in")
    page.get_by_role("link", name="Turn on two-factor sign-in").click()
    secret = page.get_by_label("Or type this secret into it").input_value()
    page.get_by_label("Code", exact=True).fill(code_of(secret))
    page.get_by_role("button", name="Turn on").click()
    codes = page.locator("pre").inner_text().split()
    assert len(set(codes)) == 10
    page.get_by_role("link", name="I have saved them").click()
    expect(page.get_by_text("10 recovery codes are left")).to_be_visible()
    page.goto(app)
    return secret


def issue_key(page: Page, world: BrowserWorld, username: str) -> str:
    """Issue a key, and call with it."""
    page.get_by_label("Key name").fill("production")
    page.get_by_role("button", name="Issue key").click()
    key = page.get_by_label("Your key").input_value()
    assert key.startswith("sk_live_")
    me = call(world, key).json()
    assert (me["username"], me["app"]["name"]) == (username, "Analytical Engines")
    page.goto(page.url.removesuffix("/keys"))
    assert key not in page.content()
    return key


def allow_an_origin(page: Page, world: BrowserWorld, key: str) -> None:
    """Register an origin, and see that calls from there are let in."""
    assert status(world, key, Origin=ELSEWHERE) == 403
    page.get_by_label("Origin", exact=True).fill(ELSEWHERE)
    page.get_by_role("button", name="Add origin").click()
    expect(page.get_by_text(ELSEWHERE, exact=True)).to_be_visible()
    allowed = call(world, key, Origin=ELSEWHERE)
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == ELSEWHERE
    page.get_by_label("Redirect URI").fill(f"{ELSEWHERE}/back")
    page.get_by_role("button", name="Add redirect URI").click()
    expect(page.get_by_text(f"{ELSEWHERE}/back", exact=True)).to_be_visible()


def rotate_twice(page: Page, world: BrowserWorld, key: str) -> str:
    """Rotate with an hour's overlap, then at once; return the newest key."""
    app = page.url
    page.get_by_label("Old key ends").select_option("after 1 hour")
    page.get_by_role("button", name="Rotate").click()
    second = page.get_by_label("Your key").input_value()
    assert (status(world, key), status(world, second)) == (200, 200)
    expect(page.get_by_role("listitem").filter(has_text=f"{key[:16]}…")).to_contain_text("ends")
    page.goto(app)
    page.get_by_label("Old key ends").select_option("at once")
    page.get_by_role("button", name="Rotate").click()
    third = page.get_by_label("Your key").input_value()
    assert [status(world, each) for each in (key, second, third)] == [200, 401, 200]
    page.goto(app)
    return third


def revoke(page: Page, world: BrowserWorld, key: str) -> None:
    """Revoke the newest key: keep it at the first question, confirm at the second."""
    row = page.get_by_role("listitem").filter(has_text=f"{key[:16]}…")
    question = page.get_by_role("heading", name="Revoke this key?")
    row.get_by_role("button", name="Revoke", exact=True).click()
    expect(question).to_be_visible()
    expect(page.get_by_text(f"{key[:16]}…")).to_be_visible()
    page.get_by_role("link", name="Keep the key").click()
    expect(row).to_contain_text("valid")
    assert status(world, key) == 200
    row.get_by_role("button", name="Revoke", exact=True).click()
    expect(question).to_be_visible()
    page.get_by_role("button", name="Revoke", exact=True).click()
    expect(row).to_contain_text("ended")
    assert status(world, key) == 401


def download(page: Page, world: BrowserWorld, username: str) -> None:
    """Receive money, and download the movements."""
    run_in_thread(fund(world.database_url, username))
    page.get_by_role("link", name="Activity").click()
    expect(page.get_by_text("+1,234.567 OUSD")).to_be_visible()
    with page.expect_download() as started:
        page.get_by_role("link", name="Download CSV").click()
    assert started.value.suggested_filename == f"ousel-{username}.csv"
    text = Path(started.value.path()).read_text(encoding="utf-8-sig")
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["amount"], row["balance_after"], row["kind"]) == ("1234.567", "1234.567", "funding")


async def fund(database_url: str, username: str) -> None:
    """Let money arrive from the operator, beside the running server."""
    async with open_database(database_url) as database:
        account = await database.read(
            lambda transaction: find_account(transaction, f"@{username}", param="to")
        )
        await fund_account(database, system_clock, account, 1_234_567_000)


def change_password(page: Page, world: BrowserWorld, username: str, secret: str) -> None:
    """Change the password here, and find the other browser signed out."""
    other = world.page()
    sign_in(other, username)
    other.get_by_label("Code").fill(code_of(secret, steps_ahead=1))
    other.get_by_role("button", name="Continue").click()
    expect(other.get_by_role("heading", name="Movements")).to_be_visible()
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("Current password").fill(PASSWORD)
    page.get_by_label("New password").fill(NEW_PASSWORD)
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_text("Your password has been changed")).to_be_visible()
    expect(page.get_by_text("Password changed", exact=True)).to_be_visible()
    other.goto("/apps")
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()
    assert other.url.endswith("/login?next=%2Fapps")
    sign_in(other, username)
    expect(other.get_by_role("alert")).to_contain_text("is not right")
    other.context.close()
    page.get_by_role("button", name="Sign out", exact=True).click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_double_click_issues_one_key(browser_world: SampleWorld) -> None:
    """Without scripts. The page shows the key that is in the list, and so does a reload."""
    page = browser_world.page(browser_world.newcomer(), java_script_enabled=False)
    create_app(page, "Analytical Engines")
    page.get_by_label("Key name").fill("till")
    page.get_by_role("button", name="Issue key").dblclick()
    expect(page.get_by_label("Your key")).to_be_visible()
    key = page.get_by_label("Your key").input_value()
    page.reload()

    assert page.get_by_label("Your key").input_value() == key
    expect(page.get_by_role("button", name="Rotate")).to_have_count(1)
    assert status(browser_world, key) == 200
