"""Passkeys in Chromium: added, used alone and after the password, removed, copied, misled."""

import json
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support.browser import (
    WAIT_MILLISECONDS,
    axe_violations,
    sign_in,
)
from tests.support.browser_world import SampleWorld
from tests.support.site import Site
from tests.support.virtual_authenticator import VirtualAuthenticator

pytestmark = pytest.mark.slow

WITH_PASSKEY = "Sign in with a passkey"
# What a site does that imitates this one: it passes a challenge on and takes the answer.
SIGN_CHALLENGE = """async (challenge) => {
  const bytes = (text) => Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
  const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer)))
    .replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const given = await navigator.credentials.get({ publicKey: {
    challenge: bytes(challenge.replaceAll("-", "+").replaceAll("_", "/")),
    rpId: "localhost", userVerification: "required",
  } });
  const names = ["clientDataJSON", "authenticatorData", "signature", "userHandle"];
  const response = Object.fromEntries(names.map((name) => [name, text(given.response[name])]));
  return { id: given.id, rawId: given.id, type: given.type, response };
}"""
SEND_ANSWER = """(credential) => {
  const form = document.querySelector("form[data-passkey]");
  form.querySelector("[data-answer]").value = credential;
  form.submit();
}"""


class Visit:
    """A window of the browser with an authenticator, at the name under which passkeys work."""

    def __init__(self, world: SampleWorld, **options: Any) -> None:
        self.origin = f"http://localhost:{world.server.port}"
        context = world.browser.new_context(base_url=self.origin, **options)
        context.set_default_timeout(WAIT_MILLISECONDS)
        self.page = context.new_page()
        self.authenticator = VirtualAuthenticator(self.page)
        self.username = world.newcomer()
        context.add_cookies(world.sign_in(self.username, self.origin))

    def sign_out(self) -> None:
        """Sign out, which opens the sign-in page."""
        self.page.get_by_role("button", name="Sign out").first.click()
        self.page.wait_for_url("**/login")

    def press_passkey(self, button: str = WITH_PASSKEY) -> None:
        """Press a button that uses a passkey."""
        self.page.get_by_role("button", name=button).click()

    def add_passkey(self, name: str = "Ada's phone") -> list[str]:
        """Add the first passkey; return the recovery codes."""
        self.page.goto("/settings")
        self.page.get_by_role("link", name="Add a passkey").click()
        self.page.get_by_label("Name").fill(name)
        self.press_passkey("Add passkey")
        expect(self.page.get_by_role("heading", name="Recovery codes")).to_be_visible()
        codes = self.page.locator("pre code").inner_text().split()
        self.page.get_by_role("link", name="I have saved them").click()
        expect(self.page.get_by_text(name, exact=True).first).to_be_visible()
        return codes

    def expect_signed_in(self) -> None:
        """Check that the activity of this person is open."""
        self.page.wait_for_url("**/activity")
        expect(self.page.get_by_text(f"@{self.username}").first).to_be_visible()

    def expect_refused(self, sentence: str) -> None:
        """Check that the page says why, and that nobody is signed in."""
        expect(self.page.get_by_role("alert").filter(has_text=sentence)).to_be_visible()
        expect(self.page.get_by_role("button", name="Sign out")).to_have_count(0)


@pytest.fixture
def visit(browser_world: SampleWorld) -> Visit:
    """Somebody with an authenticator, signed in."""
    return Visit(browser_world)


def test_a_passkey_signs_in_with_nothing_else(visit: Visit) -> None:
    """From the settings to the next visit, on which neither name nor password is typed."""
    visit.add_passkey()
    [kept] = visit.authenticator.credentials()
    assert visit.username not in kept["userHandle"]
    visit.sign_out()

    visit.press_passkey()

    visit.expect_signed_in()
    visit.page.goto("/settings/passkeys")
    expect(visit.page.get_by_text("last used")).to_be_visible()
    visit.page.goto("/settings/history")
    expect(visit.page.get_by_text("With the passkey Ada's phone")).to_be_visible()


def test_a_passkey_is_the_second_factor(visit: Visit) -> None:
    """After the password, a passkey or a recovery code is needed."""
    codes = visit.add_passkey()
    visit.sign_out()
    sign_in(visit.page, visit.username)
    expect(visit.page.get_by_role("heading", name="Use your passkey")).to_be_visible()
    visit.press_passkey("Use a passkey")
    visit.expect_signed_in()

    visit.sign_out()
    sign_in(visit.page, visit.username)
    visit.page.get_by_label("Code").fill(codes[0])
    visit.page.get_by_role("button", name="Continue").click()
    visit.expect_signed_in()


def test_a_second_passkey_is_named_renamed_and_removed(visit: Visit) -> None:
    """One device makes one passkey; with the last one, two-factor sign-in ends."""
    page = visit.page
    visit.add_passkey("Laptop")
    page.get_by_role("link", name="Manage passkeys").click()
    visit.press_passkey("Add passkey")
    expect(page.get_by_text("This device has a passkey for your account")).to_be_visible()
    visit.authenticator.forget()
    page.get_by_label("Name").fill("Pohne")
    visit.press_passkey("Add passkey")
    expect(page.get_by_text("The passkey has been added.")).to_be_visible()

    page.get_by_role("link", name="Change Pohne").click()
    page.get_by_label("Name").fill("Phone")
    page.get_by_role("button", name="Rename").click()
    for name in ("Phone", "Laptop"):
        page.get_by_role("link", name=f"Change {name}").click()
        page.get_by_role("button", name="Remove passkey").click()
        expect(page.get_by_text("The passkey has been removed.")).to_be_visible()

    visit.sign_out()
    visit.press_passkey()
    visit.expect_refused("This passkey is not known here.")
    sign_in(page, visit.username)
    visit.expect_signed_in()


def test_a_copy_whose_counter_is_behind_is_refused(visit: Visit) -> None:
    """The person reads why, and finds it in the history."""
    visit.add_passkey()
    visit.sign_out()
    visit.press_passkey()
    visit.expect_signed_in()
    visit.sign_out()
    visit.authenticator.set_counter(1)

    visit.press_passkey()

    visit.expect_refused("it may have been copied")
    visit.authenticator.set_counter(100)
    visit.press_passkey()
    visit.expect_signed_in()
    visit.page.goto("/settings/history")
    expect(visit.page.get_by_text("Passkey refused")).to_be_visible()


def test_an_answer_that_another_site_obtained_is_refused(visit: Visit) -> None:
    """A page on another port of the same host asks for the passkey: its origin gives it away."""
    visit.add_passkey()
    visit.sign_out()
    token = visit.page.locator("form[data-passkey] [name=form_token]").input_value()
    asked = visit.page.request.post("/login/passkey/options", form={"form_token": token})
    with Site(html="<!doctype html><title>Elsewhere</title>").open() as elsewhere:
        visit.page.goto(elsewhere.origin.replace("127.0.0.1", "localhost"))
        answer = visit.page.evaluate(SIGN_CHALLENGE, asked.json()["challenge"])

    visit.page.goto("/login")
    visit.page.evaluate(SEND_ANSWER, json.dumps(answer))

    visit.expect_refused("The passkey was not accepted.")


def test_a_person_who_is_not_recognized_stays_out(visit: Visit) -> None:
    """The authenticator does not sign; the page says that nothing was used, and works again."""
    visit.add_passkey()
    visit.sign_out()
    visit.authenticator.recognize(owner=False)
    visit.press_passkey()
    visit.expect_refused("The passkey was not used.")
    assert axe_violations(visit.page) == []
    visit.authenticator.recognize(owner=True)
    visit.press_passkey()
    visit.expect_signed_in()


def test_the_focus_stays_on_the_button(visit: Visit) -> None:
    """Whoever uses only keys presses Enter again after a passkey was not used."""
    visit.add_passkey()
    visit.sign_out()
    visit.authenticator.recognize(owner=False)
    button = visit.page.get_by_role("button", name=WITH_PASSKEY)
    button.press("Enter")
    visit.expect_refused("The passkey was not used.")
    expect(button).to_be_focused()
    visit.authenticator.recognize(owner=True)
    visit.page.keyboard.press("Enter")
    visit.expect_signed_in()


def test_without_scripts_the_page_says_what_is_missing(browser_world: SampleWorld) -> None:
    """The button is hidden, and everything else works."""
    visit = Visit(browser_world, java_script_enabled=False)
    page = visit.page
    page.goto("/settings/passkeys")
    expect(page.get_by_text("Passkeys need JavaScript")).to_be_visible()
    expect(page.get_by_role("button", name="Add passkey")).to_be_hidden()
    visit.sign_out()
    expect(page.get_by_text("Passkeys need JavaScript")).to_be_visible()
    expect(page.get_by_role("button", name=WITH_PASSKEY)).to_be_hidden()
    sign_in(page, visit.username)
    visit.expect_signed_in()
    page.context.close()


def test_at_another_address_the_button_leads_to_the_right_one(visit: Visit) -> None:
    """Browsers refuse passkeys for IP addresses, so the button opens the page under its name."""
    page = visit.page
    page.goto("/activity")
    visit.sign_out()
    named = page.url
    page.goto(named.replace("localhost", "127.0.0.1"))
    expect(page.get_by_role("link", name=visit.origin)).to_be_visible()
    visit.press_passkey()
    page.wait_for_url(named)
    expect(page.get_by_role("button", name=WITH_PASSKEY)).to_be_visible()


def test_at_another_address_a_form_that_was_sent_leads_to_the_right_one(
    browser_world: SampleWorld,
) -> None:
    """The address of a form cannot be opened as a page, so the button leads to the first page."""
    visit, numbered = Visit(browser_world), browser_world.server.origin
    page = visit.page
    page.context.add_cookies(browser_world.sign_in(visit.username, numbered))
    visit.add_passkey("Laptop")
    page.goto(f"{numbered}/settings/passkeys")
    page.get_by_role("link", name="Change Laptop").click()
    browser_world.forget_identity_checks()
    page.get_by_role("button", name="Remove passkey").click()
    expect(page.get_by_role("heading", name="Confirm that it is you")).to_be_visible()

    visit.press_passkey("Use a passkey")

    page.wait_for_url(f"{visit.origin}/**")
    visit.expect_signed_in()
