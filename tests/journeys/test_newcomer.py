"""Somebody new, who only follows what the pages offer, from the first page to a way back in."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from ousel.database.addresses import open_database
from tests.support.accounts import person
from tests.support.browser import (
    WAIT_MILLISECONDS,
    code_sent_to,
    fill_in_sign_in,
    run_in_thread,
)
from tests.support.engines import Engine, Engines
from tests.support.server import Server
from tests.support.virtual_authenticator import VirtualAuthenticator
from tests.support.visitor import PASSWORD

pytestmark = pytest.mark.slow

EMAIL, NEW_EMAIL = "newcomer@example.com", "newcomer@new.example"
NEW_PASSWORD = "a better horse battery"


async def add_grace(database_url: str) -> None:
    """Add somebody to whom money can be sent."""
    async with open_database(database_url) as database:
        await person(database, "grace", display_name="Grace Hopper")


@pytest.fixture
def database_url(engines: Engines, engine: Engine, tmp_path: Path) -> Iterator[str]:
    """A fresh database, made in another thread: the browser uses this one's event loop."""
    with ThreadPoolExecutor(1) as thread:
        url = thread.submit(engines.fresh_url, engine, tmp_path).result()
        yield url
        thread.submit(engines.give_back, url).result()


@pytest.fixture
def server(database_url: str) -> Iterator[Server]:
    """A fresh sandbox."""
    run_in_thread(add_grace(database_url))
    with Server(database_url, "--sandbox") as running:
        yield running


def first_page(browser: Browser, server: Server, *, scripts: bool = True) -> Page:
    """Open the first page of the sandbox, at the name under which passkeys work."""
    context = browser.new_context(
        base_url=f"http://localhost:{server.port}", java_script_enabled=scripts
    )
    context.set_default_timeout(WAIT_MILLISECONDS)
    page = context.new_page()
    page.goto("/")
    return page


def follow(page: Page, *links: str) -> None:
    """Click one link after the other."""
    for link in links:
        page.get_by_role("main").get_by_role("link", name=link).first.click()


def press(page: Page, *buttons: str) -> None:
    """Press one button after the other."""
    for button in buttons:
        page.get_by_role("main").get_by_role("button", name=button, exact=True).click()


def sign_out(page: Page) -> None:
    """Sign out, which opens the sign-in page."""
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/login")


@pytest.mark.parametrize("engine", ["postgresql"])
def test_somebody_new_finds_every_step(browser: Browser, server: Server) -> None:
    """Sign-up, confirming the email, test money, sending it, a passkey, a forgotten password.

    No address is typed after the first one.
    """
    page = first_page(browser, server)
    sign_up(page)
    follow(page, "Confirm your email", "Mail of this sandbox", "/verify-email?token=")
    confirm_email(page, EMAIL)
    get_money_and_send_it(page)
    add_passkey_and_sign_in_with_it(page)
    set_a_new_password(page)
    fill_in_sign_in(page, "newcomer", NEW_PASSWORD)
    press(page, "Use a passkey")
    page.wait_for_url("**/activity")
    expect(page.locator(".figure")).to_have_text("95.00 OUSD")


@pytest.mark.parametrize("engine", ["sqlite"])
def test_an_account_works_without_scripts(browser: Browser, server: Server) -> None:
    """Codes confirm an email and another one, money is sent, a forgotten password is replaced."""
    page = first_page(browser, server, scripts=False)
    sign_up(page)
    enter_code(page, EMAIL)
    confirm_email(page, EMAIL)
    get_money_and_send_it(page)
    change_email(page)
    sign_out(page)
    set_a_new_password(page)
    fill_in_sign_in(page, NEW_EMAIL, NEW_PASSWORD)
    page.wait_for_url("**/activity")
    expect(page.locator(".figure")).to_have_text("95.00 OUSD")


def sign_up(page: Page) -> None:
    """Go from the first page to an account."""
    follow(page, "Create an account")
    for label, text in {
        "Username": "newcomer",
        "Email": EMAIL,
        "Display name": "Newcomer",
        "Password": PASSWORD,
    }.items():
        page.get_by_label(label).fill(text)
    press(page, "Create account")
    page.wait_for_url("**/activity")


def enter_code(page: Page, email: str) -> None:
    """Fill in the code of the newest message to an address."""
    code = code_sent_to(page, email)
    page.goto("/verify-email")
    page.get_by_label("Code").fill(code)


def confirm_email(page: Page, email: str) -> None:
    """Confirm the email that is shown."""
    press(page, "Confirm email")
    expect(page.get_by_text(f"{email} is confirmed")).to_be_visible()


def change_email(page: Page) -> None:
    """Go from any page to another confirmed email."""
    page.get_by_role("link", name="Settings").click()
    follow(page, "Change email")
    page.get_by_label("New email").fill(NEW_EMAIL)
    page.get_by_label("Password").fill(PASSWORD)
    press(page, "Change email")
    expect(page.get_by_text(f"on its way to {NEW_EMAIL}")).to_be_visible()
    enter_code(page, NEW_EMAIL)
    confirm_email(page, NEW_EMAIL)


def get_money_and_send_it(page: Page) -> None:
    """Go on to test money and its receipt."""
    follow(page, "Go to your activity")
    expect(page.get_by_role("link", name="Confirm your email")).to_have_count(0)
    press(page, "Get test money")
    follow(page, "Send")
    page.get_by_label("To").fill("grace")
    page.get_by_label("Amount").fill("5")
    press(page, "Continue", "Send 5.00 OUSD")
    expect(page.get_by_text("Grace Hopper has received 5.00 OUSD")).to_be_visible()


def add_passkey_and_sign_in_with_it(page: Page) -> None:
    """Add a passkey, sign out, and sign in with nothing else."""
    authenticator = VirtualAuthenticator(page)
    page.get_by_role("link", name="Settings").click()
    follow(page, "Add a passkey")
    press(page, "Add passkey")
    follow(page, "I have saved them")
    assert len(authenticator.credentials()) == 1
    sign_out(page)
    press(page, "Sign in with a passkey")
    page.wait_for_url("**/activity")
    sign_out(page)


def set_a_new_password(page: Page) -> None:
    """Forget the password, and set a new one by the link in the mail."""
    follow(page, "Forgot your password?")
    page.get_by_label("Email or username").fill("newcomer")
    press(page, "Send a link")
    follow(page, "Mail of this sandbox", "/reset?token=")
    page.get_by_label("New password").fill(NEW_PASSWORD)
    press(page, "Set password")
