"""A real Chromium, and what a person does on the pages of the portal."""

import asyncio
import time
from collections.abc import Collection, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.resources import files
from typing import Any, TypeVar

from playwright.sync_api import Browser, Page, expect, sync_playwright

from ousel.people.rules import CODE_STEP_SECONDS, one_time_code
from tests.support.mail import code_in
from tests.support.programs import program
from tests.support.visitor import PASSWORD

Result = TypeVar("Result")

WAIT_MILLISECONDS = 120_000  # long, because the machine may be busy

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # One process for all windows of a context, and none in reserve.
    "--renderer-process-limit=1",
    "--disable-site-isolation-trials",
    "--in-process-gpu",
]

RUN_AXE = "options => axe.run(options).then(({ violations }) => violations)"
# Without preloading: only the rules about screens that turn and sounds that start need it.
AXE_OPTIONS: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a headless Chromium until the block ends."""
    program("libatomic1")
    path = program("chromium-headless-shell")
    expect.set_options(timeout=WAIT_MILLISECONDS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


def axe_violations(page: Page, rules: Collection[str] = ()) -> list[str]:
    """Return the violations that axe finds on the page, by these rules or by all."""
    load_axe(page)
    options = AXE_OPTIONS | ({"runOnly": list(rules)} if rules else {})
    return violations_in(page.evaluate(RUN_AXE, options))


def load_axe(page: Page) -> None:
    """Make axe available to the scripts of the page."""
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text())


def violations_in(found: list[dict[str, Any]]) -> list[str]:
    """Return one line for each element that breaks a rule of axe."""
    return [
        f"{each['id']}: {each['help']}: {node['html'][:100]}"
        for each in found
        for node in each["nodes"]
    ]


def run_in_thread(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in another thread: the browser's driver uses this thread's event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def sign_in(page: Page, identifier: str, password: str = PASSWORD) -> None:
    """Open the sign-in page, fill in its form and send it."""
    page.goto("/login")
    fill_in_sign_in(page, identifier, password)


def fill_in_sign_in(page: Page, identifier: str, password: str = PASSWORD) -> None:
    """Fill in the sign-in form that is open, and send it."""
    page.get_by_label("Email or username").fill(identifier)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()


def sign_up(page: Page, username: str, **fields: str) -> None:
    """Create an account, and wait until its activity page is open."""
    page.goto("/signup")
    filled = {
        "Username": username,
        "Email": f"{username}@example.com",
        "Display name": username.title(),
        "Password": PASSWORD,
    }
    for label, value in (filled | fields).items():
        page.get_by_label(label).fill(value)
    page.get_by_role("button", name="Create account").click()
    page.wait_for_url("**/activity")


def balance_on(page: Page) -> float:
    """Return the balance that the activity page shows."""
    page.goto("/activity")
    return float(page.locator(".figure").inner_text().removesuffix(" OUSD").replace(",", ""))


def create_app(page: Page, name: str) -> str:
    """Create an app, which opens its page, and return the path of this page."""
    page.goto("/apps/new")
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Create app").click()
    expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()
    return page.url.removeprefix(page.url.partition("/apps/")[0])


def turn_on_factor(page: Page) -> str:
    """Turn two-factor sign-in on, which shows the recovery codes, and return its secret."""
    page.goto("/settings/two-factor")
    secret = page.get_by_label("Or type this secret into it").input_value()
    page.get_by_label("Code", exact=True).fill(code_of(secret))
    page.get_by_role("button", name="Turn on").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    return secret


def code_of(secret: str, steps_ahead: int = 0) -> str:
    """Return the code that an authenticator app shows now, or that many 30-second steps later."""
    return one_time_code(secret, int(time.time()) // CODE_STEP_SECONDS + steps_ahead)


def code_sent_to(page: Page, email: str) -> str:
    """Return the code in the newest message of the sandbox to an address."""
    page.goto(f"/sandbox/mail?to={email}")
    lines = page.locator("article.card").first.locator("p").all_inner_texts()
    return code_in("\n".join(f"    {line.strip()}" for line in lines))
