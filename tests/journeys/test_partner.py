"""A partner's whole way, from signing up to a changed password, as a person walks it."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import httpx2
import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect

from ousel.accounts.service import find_account
from ousel.kernel.clock import system_clock
from ousel.ledger.funding import fund_account
from tests.journeys.furnished import PASSWORD
from tests.journeys.stages import apart
from tests.journeys.visits import code_of, create_app, new_page, sign_in, sign_up
from tests.support.accounts import open_database
from tests.support.browser import chromium
from tests.support.servers import Server

pytestmark = pytest.mark.slow

NEW_PASSWORD = "a better horse battery"
ELSEWHERE = "https://shop.example"


class House(msgspec.Struct):
    """A server, live or a sandbox, and a browser."""

    browser: Browser
    server: Server
    database_url: str
    is_live: bool

    def status(self, key: str, **headers: str) -> int:
        """Return how the interface answers this key."""
        return self.call(key, **headers).status_code

    def call(self, key: str, **headers: str) -> httpx2.Response:
        """Call /me with this key."""
        authorized = {"Authorization": f"Bearer {key}"} | headers
        return httpx2.get(f"{self.server.base_url}/me", headers=authorized)


@pytest.fixture(scope="module", params=["live", "sandbox"])
def house(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    """A server of each kind, with nobody in it."""
    folder: Path = tmp_path_factory.mktemp("partner")
    database_url = str(folder / "ousel.db")
    is_live = request.param == "live"
    options = () if is_live else ("--sandbox",)
    with Server(database_url, *options) as server, chromium() as browser:
        yield House(browser, server, database_url, is_live)


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])
def test_from_signing_up_to_a_changed_password(
    house: House,
    scripts: bool,  # noqa: FBT001
) -> None:
    """Sign up, create an app, issue a key and call with it, allow an origin, rotate, revoke,
    download the movements, change the password: every step works, with scripts and without."""
    username = "ada" if scripts else "grace"
    page = new_page(house.browser, house.server, java_script_enabled=scripts)
    sign_up(page, username)
    expect(page.get_by_text("Nothing has moved yet")).to_be_visible()
    app = create_app(page, "Analytical Engines")
    secret = turn_on_factor_when_asked(page, app) if house.is_live else None
    key = issue_key(page, house, username)
    allow_an_origin(page, house, key)
    newest = rotate_twice(page, house, key)
    revoke(page, house, newest)
    download(page, house, username)
    change_password(page, house, username, secret)
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
    page.get_by_role("link", name="I have kept them").click()
    expect(page.get_by_text("10 recovery codes are left")).to_be_visible()
    page.goto(app)
    return secret


def issue_key(page: Page, house: House, username: str) -> str:
    """Issue a key, and call with it."""
    page.get_by_label("Key name").fill("production")
    page.get_by_role("button", name="Issue key").click()
    key = page.get_by_label("Your key").input_value()
    assert key.startswith("sk_live_" if house.is_live else "sk_test_")
    me = house.call(key).json()
    assert (me["username"], me["app"]["name"]) == (username, "Analytical Engines")
    page.goto(page.url.removesuffix("/keys"))
    assert key not in page.content()
    return key


def allow_an_origin(page: Page, house: House, key: str) -> None:
    """Register an origin, and see that calls from there are let in."""
    assert house.status(key, Origin=ELSEWHERE) == 403
    page.get_by_label("Origin", exact=True).fill(ELSEWHERE)
    page.get_by_role("button", name="Add origin").click()
    expect(page.get_by_text(ELSEWHERE, exact=True)).to_be_visible()
    allowed = house.call(key, Origin=ELSEWHERE)
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == ELSEWHERE
    page.get_by_label("Redirect URI").fill(f"{ELSEWHERE}/back")
    page.get_by_role("button", name="Add redirect URI").click()
    expect(page.get_by_text(f"{ELSEWHERE}/back", exact=True)).to_be_visible()


def rotate_twice(page: Page, house: House, key: str) -> str:
    """Rotate with an hour's overlap, then at once; return the newest key."""
    app = page.url
    page.get_by_label("Old key ends").select_option("after 1 hour")
    page.get_by_role("button", name="Rotate").click()
    second = page.get_by_label("Your key").input_value()
    assert (house.status(key), house.status(second)) == (200, 200)
    expect(page.get_by_role("listitem").filter(has_text=f"{key[:16]}…")).to_contain_text("ends")
    page.goto(app)
    page.get_by_label("Old key ends").select_option("at once")
    page.get_by_role("button", name="Rotate").click()
    third = page.get_by_label("Your key").input_value()
    assert [house.status(each) for each in (key, second, third)] == [200, 401, 200]
    page.goto(app)
    return third


def revoke(page: Page, house: House, key: str) -> None:
    """Revoke the newest key: asked once more, first keep it, then let it go: it is refused."""
    row = page.get_by_role("listitem").filter(has_text=f"{key[:16]}…")
    question = page.get_by_role("heading", name="Revoke this key?")
    row.get_by_role("button", name="Revoke", exact=True).click()
    expect(question).to_be_visible()
    expect(page.get_by_text(f"{key[:16]}…")).to_be_visible()
    page.get_by_role("link", name="Keep the key").click()
    expect(row).to_contain_text("works")
    assert house.status(key) == 200
    row.get_by_role("button", name="Revoke", exact=True).click()
    expect(question).to_be_visible()
    page.get_by_role("button", name="Revoke", exact=True).click()
    expect(row).to_contain_text("ended")
    assert house.status(key) == 401


def download(page: Page, house: House, username: str) -> None:
    """Receive money, and download the movements."""
    apart(fund(house.database_url, username))
    page.get_by_role("link", name="Activity").click()
    expect(page.get_by_text("+1234.567 OUSD")).to_be_visible()
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


def change_password(page: Page, house: House, username: str, secret: str | None) -> None:
    """Change the password here, and find the other browser signed out."""
    other = new_page(house.browser, house.server)
    sign_in(other, username)
    if secret is not None:
        other.get_by_label("Code").fill(code_of(secret, steps_ahead=1))
        other.get_by_role("button", name="Continue").click()
    expect(other.get_by_role("heading", name="Movements")).to_be_visible()
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("Current password").fill(PASSWORD)
    page.get_by_label("New password").fill(NEW_PASSWORD)
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_text("Your password is changed")).to_be_visible()
    expect(page.get_by_text("Password changed", exact=True)).to_be_visible()
    other.goto("/apps")
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()
    assert other.url.endswith("/login?next=%2Fapps")
    sign_in(other, username)
    expect(other.get_by_role("alert")).to_contain_text("is not right")
    other.context.close()
    page.get_by_role("button", name="Sign out", exact=True).click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
