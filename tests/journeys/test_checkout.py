"""The checkout in a browser, with scripts and without."""

import re
import time
from typing import Any
from urllib.parse import unquote

import pytest
from playwright.sync_api import Page, Route, expect

from ousel.charges.lifecycle import LIFETIME_MICROS
from ousel.charges.rules import ChargeTerms
from ousel.charges.service import ChargeService
from ousel.database.addresses import open_database
from ousel.ledger.queue import PostingQueue
from tests.support.browser import balance_on, fill_in_sign_in, run_in_thread
from tests.support.browser_world import SampleWorld
from tests.support.clock import ManualClock
from tests.support.visitor import PASSWORD

pytestmark = pytest.mark.slow

PAY = "Pay 25.00 OUSD"
SHOP_SECONDS = 1.0  # for a page of the shop, by when an open checkout has noticed
NO_SCRIPTS: dict[str, Any] = {"java_script_enabled": False}
with_and_without_scripts = pytest.mark.parametrize(
    "options", [{}, NO_SCRIPTS], ids=["scripts", "no-scripts"]
)
RECORDER = """
setInterval(() => {
  const text = document.getElementById("time-left")?.textContent;
  if (!text?.includes(":") || text.includes("until")) return;
  const shown = JSON.parse(sessionStorage.shown ?? "[]");
  sessionStorage.shown = JSON.stringify([...shown, [text, Date.now()]]);
}, 50);
"""

Options = dict[str, Any]


def payments_on(page: Page, charge_id: str) -> int:
    """Return how many movements of this charge the person's own history has."""
    lines = page.request.get("/activity.csv?kind=charge_payment").text().splitlines()
    return sum(charge_id in line for line in lines)


def test_the_switch_of_scripts_works(browser_world: SampleWorld) -> None:
    """With scripts the page counts down; without them it tells the moment of expiry."""
    path = f"/pay/{browser_world.charge()['id']}"
    lively, plain = browser_world.page(), browser_world.page(**NO_SCRIPTS)
    lively.goto(path)
    plain.goto(path)

    expect(lively.get_by_role("timer")).to_have_text(re.compile(r"^(2:00:00|1:59:\d\d)$"))
    expect(plain.get_by_role("timer")).to_have_text(
        re.compile(r"^until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$")
    )


@with_and_without_scripts
def test_from_the_link_to_the_shops_thanks(browser_world: SampleWorld, options: Options) -> None:
    """Open, sign in, pay, and arrive at the shop; the money has moved once on each side."""
    charge = browser_world.charge(description="Two tickets", reference="order-1")
    before = browser_world.call("GET", "/balance")["available"]
    page = browser_world.page(**options)

    page.goto(charge["checkout_url"])
    expect(page.get_by_role("heading", name="Analytical Engines")).to_be_visible()
    expect(page.get_by_text("25.00 OUSD", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name=PAY)).to_have_count(0)
    page.get_by_role("link", name="Sign in").click()
    fill_in_sign_in(page, "grace")
    page.wait_for_url(f"**/pay/{charge['id']}")
    expect(page.get_by_text("Grace Hopper")).to_be_visible()
    page.get_by_role("button", name=PAY).click()
    expect(page.get_by_role("heading", name="Receipt")).to_be_visible()
    receipt = page.locator("main").inner_text()
    page.wait_for_url(charge["success_url"])
    expect(page.get_by_role("heading", name="Welcome back")).to_be_visible()

    record = browser_world.call("GET", f"/charges/{charge['id']}")
    [payment] = browser_world.payments(charge["id"])
    assert (record["status"], record["paid_by"]["username"]) == ("paid", "grace")
    assert record["transfer_id"] == payment["id"]
    assert payment["id"] in receipt
    assert browser_world.call("GET", "/balance")["available"] == pytest.approx(before + 25)
    assert payments_on(page, charge["id"]) == 1


def test_someone_new_signs_up_gets_funds_and_pays(browser_world: SampleWorld) -> None:
    """Signing up keeps the charge; funds that arrive make it payable; the button leads back."""
    charge = browser_world.charge()
    username = f"new_{charge['id'][-8:]}"
    page = browser_world.page()

    page.goto(charge["checkout_url"])
    page.get_by_role("link", name="Create an account").click()
    page.get_by_label("Username").fill(username)
    page.get_by_label("Email").fill(f"{username}@example.com")
    page.get_by_label("Display name").fill("Someone New")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Create account").click()
    page.wait_for_url(f"**/pay/{charge['id']}")
    expect(page.get_by_text("Your balance is 25.00 OUSD too low.")).to_be_visible()
    page.get_by_role("button", name=PAY).click()
    expect(page.get_by_text("Nothing was paid. Your balance is 25.00 OUSD")).to_be_visible()
    browser_world.call("POST", "/sandbox/fund", to=f"@{username}", amount=25)
    page.get_by_role("button", name=PAY).click()
    page.get_by_role("link", name="Return to Analytical Engines").click()

    page.wait_for_url(charge["success_url"])
    assert browser_world.call("GET", f"/charges/{charge['id']}")["status"] == "paid"


def test_cancel_goes_back_to_a_shop_that_cancels_the_charge(browser_world: SampleWorld) -> None:
    """The open page notices the cancellation but does not pull the payer back from the shop."""
    charge = browser_world.charge()
    page = browser_world.page()

    def cancel(route: Route) -> None:
        browser_world.call("POST", f"/charges/{charge['id']}/cancel")
        time.sleep(SHOP_SECONDS)  # a slow shop
        route.continue_()

    page.route(charge["cancel_url"], cancel)
    with page.expect_request("**/status"):
        page.goto(f"/pay/{charge['id']}")
    page.get_by_role("link", name="Cancel").click()

    page.wait_for_url(charge["cancel_url"])
    expect(page.get_by_role("heading", name="Welcome back")).to_be_visible()


def test_the_first_screen_notices_what_a_phone_paid(browser_world: SampleWorld) -> None:
    """After paying on the phone, both the phone and the first screen lead to the shop."""
    charge = browser_world.charge()
    screen = browser_world.page()
    phone = browser_world.page("grace", viewport={"width": 360, "height": 740})

    screen.goto(charge["checkout_url"])
    expect(screen.get_by_alt_text("QR code with the address of this page")).to_be_visible()
    phone.goto(charge["checkout_url"])
    expect(phone.get_by_alt_text("QR code with the address of this page")).to_be_hidden()
    phone.get_by_role("button", name=PAY).click()

    screen.wait_for_url(charge["success_url"])
    phone.wait_for_url(charge["success_url"])
    assert len(browser_world.payments(charge["id"])) == 1


def test_an_open_page_notices_that_the_charge_was_canceled(browser_world: SampleWorld) -> None:
    """The button goes away by itself, with the reason in its place."""
    charge = browser_world.charge()
    page = browser_world.page("grace")
    page.goto(f"/pay/{charge['id']}")
    expect(page.get_by_role("button", name=PAY)).to_be_visible()

    browser_world.call("POST", f"/charges/{charge['id']}/cancel")

    expect(page.get_by_text("This charge was canceled")).to_be_visible()
    expect(page.get_by_role("button", name=PAY)).to_have_count(0)


@with_and_without_scripts
def test_a_double_click_pays_once(browser_world: SampleWorld, options: Options) -> None:
    """Two clicks in a row end at the receipt of one payment; both balances show it."""
    charge = browser_world.charge(success_url=None)
    page = browser_world.page("grace", **options)
    payer, partner = balance_on(page), browser_world.call("GET", "/balance")["available"]

    page.goto(f"/pay/{charge['id']}")
    page.get_by_role("button", name=PAY).dblclick()

    expect(page.get_by_role("heading", name="Receipt")).to_be_visible()
    assert payments_on(page, charge["id"]) == 1
    assert balance_on(page) == pytest.approx(payer - 25)
    assert browser_world.call("GET", "/balance")["available"] == pytest.approx(partner + 25)


def test_reload_and_back_pay_once(browser_world: SampleWorld) -> None:
    """The receipt can be reloaded; the page before it says that it is paid."""
    charge = browser_world.charge()
    page = browser_world.page("grace")

    page.goto(f"/pay/{charge['id']}")
    page.get_by_role("button", name=PAY).click()
    page.get_by_role("link", name="Stay here").click()
    page.wait_for_url(f"**/pay/{charge['id']}/receipt")
    page.reload()
    expect(page.get_by_role("heading", name="Receipt")).to_be_visible()
    page.goto(f"/pay/{charge['id']}")
    page.go_back()
    page.go_forward()

    expect(page.get_by_text("You paid this")).to_be_visible()
    expect(page.get_by_role("button", name=PAY)).to_have_count(0)
    assert payments_on(page, charge["id"]) == 1


def test_a_form_that_is_out_of_date_leads_back_to_its_page(browser_world: SampleWorld) -> None:
    """After signing out in another tab, the form is refused and links back to its page."""
    address, button = browser_world.sample.paths()["connect-more"], "Allow"
    page = browser_world.page("grace")
    page.goto(address)
    page.context.clear_cookies()

    page.get_by_role("button", name=button).click()
    expect(page.get_by_text("Nothing was changed.")).to_be_visible()
    page.get_by_role("link", name="Open the page again").click()

    expect(page.get_by_role("link", name="Sign in").first).to_be_visible()
    assert unquote(page.url).endswith(address)


def test_the_countdown_never_says_less_than_is_left(browser_world: SampleWorld) -> None:
    """The page shows the seconds left, rounded up, and then that the charge has expired."""
    for seconds in (5, 20, 80):  # a busy machine may show the page when the charge has expired
        shown, expires_at = _countdown_shown(browser_world, seconds)
        if len(shown) > 10:
            break
    else:
        raise AssertionError("no page was shown in time")

    ahead = [_seconds(text) * 1_000 - (expires_at - at) for text, at in shown]
    assert all(milliseconds >= -1 for milliseconds in ahead), shown
    assert min(ahead) < 1_500, "a busy machine may be late with some of them, but not with all"


def _countdown_shown(
    browser_world: SampleWorld, seconds: int
) -> tuple[list[tuple[str, float]], float]:
    """Open a charge until it expires; return what its page showed when, and when it expired."""
    page = browser_world.page("grace")
    page.add_init_script(RECORDER)
    charge_id, expires_at = run_in_thread(_about_to_expire(browser_world, seconds))
    page.goto(f"/pay/{charge_id}")
    expect(page.get_by_text("This charge has expired")).to_be_visible()
    assert page.evaluate("Date.now()") >= expires_at / 1_000
    return page.evaluate("JSON.parse(sessionStorage.shown ?? '[]')"), expires_at / 1_000


async def _about_to_expire(browser_world: SampleWorld, seconds: int) -> tuple[str, int]:
    """Create a charge that has only so many seconds left."""
    earlier = ManualClock()
    earlier.advance(seconds=seconds, micros=-LIFETIME_MICROS)
    async with open_database(browser_world.database_url) as database:
        charges = ChargeService(database, PostingQueue(database, earlier, queue_limit=1), earlier)
        app = browser_world.sample.app
        created = await charges.create(app.account_id, app.id, ChargeTerms(amount=25_000_000), None)
        return created.charge.id, created.charge.expires_at


def _seconds(text: str) -> int:
    minutes, seconds = text.split(":")
    return int(minutes) * 60 + int(seconds)
