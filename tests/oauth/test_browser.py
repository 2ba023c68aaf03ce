"""Consent in a real browser: by its labels, under its policy, with redirects to other origins."""

from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import expect

from tests.oauth.browser_steps import allow, returned_parameters, wait_for_app
from tests.oauth.consents import bearer
from tests.support.browser import fill_in_sign_in
from tests.support.browser_world import SampleWorld

pytestmark = pytest.mark.slow

# Every ASCII character, some that are not, and what could be taken for a part of the address.
STATE = "".join(map(chr, range(256))) + "\U0001f426 %00%2B&iss=https://evil.example&code=1#\\"


@pytest.fixture(autouse=True)
def _pages_closed(browser_world: SampleWorld) -> Iterator[None]:
    yield
    browser_world.close_pages()


def test_a_person_connects_an_app_and_ends_it(browser_world: SampleWorld) -> None:
    """Sign in, allow, come back with the state, see the connection, disconnect: it is dead."""
    page = browser_world.page()
    page.goto(browser_world.connect_url(scope="profile balance", state=STATE))
    fill_in_sign_in(page, "grace")
    expect(page.get_by_role("heading", name=browser_world.sample.app.name)).to_be_visible()
    expect(page.get_by_text("Your balance")).to_be_visible()
    expect(page.get_by_text(browser_world.callback, exact=True)).to_be_visible()
    back = returned_parameters(allow(page))
    token = browser_world.user_token(back["code"][0])
    profile = f"{browser_world.server.base_url}/user/me"
    before = httpx2.get(profile, headers=bearer(token), verify=False)

    page.goto("/connections")
    expect(page.get_by_role("heading", name=browser_world.sample.app.name)).to_be_visible()
    page.get_by_role("button", name="Disconnect", exact=True).click()
    expect(page.get_by_text("is disconnected")).to_be_visible()
    after = httpx2.get(profile, headers=bearer(token), verify=False)

    assert (back["state"], back["iss"]) == ([STATE], [browser_world.server.origin])
    assert before.json()["username"] == "grace"
    assert after.status_code == 401


def test_a_new_person_signs_up_before_consenting(browser_world: SampleWorld) -> None:
    """From the app to sign-in, to sign-up, to the question, and back to the app."""
    page = browser_world.page()
    page.goto(browser_world.connect_url(state=STATE))
    page.get_by_role("link", name="Create an account").click()
    for label, value in (
        ("Username", "hedy"),
        ("Email", "hedy@example.com"),
        ("Display name", "Hedy Lamarr"),
        ("Password", "correct horse battery"),
    ):
        page.get_by_label(label).fill(value)
    page.get_by_role("button", name="Create account").click()
    expect(page.get_by_role("definition").filter(has_text="@hedy")).to_be_visible()

    assert returned_parameters(allow(page))["state"] == [STATE]


def test_a_person_can_switch_accounts_before_consenting(browser_world: SampleWorld) -> None:
    """Use another account leads through sign-in back to the same question."""
    page = browser_world.page("ada")
    page.goto(browser_world.connect_url(state="x"))
    page.get_by_role("button", name="Use another account").click()
    fill_in_sign_in(page, "grace")
    expect(page.get_by_role("definition").filter(has_text="@grace")).to_be_visible()
    back = returned_parameters(allow(page))
    me = httpx2.get(
        f"{browser_world.server.base_url}/user/me",
        headers=bearer(browser_world.user_token(back["code"][0])),
    )

    assert back["state"] == ["x"]
    assert me.json()["username"] == "grace"


@pytest.mark.parametrize("button", ["Allow", "Deny"])
def test_an_app_may_redirect_to_another_origin(browser_world: SampleWorld, button: str) -> None:
    """A callback on one origin that ends on another does not strand the person."""
    page = browser_world.page("grace")
    page.goto(browser_world.connect_url(redirect_uri=browser_world.redirecting_callback))
    page.get_by_role("button", name=button).click()

    assert wait_for_app(page) == f"{browser_world.shop_origin}/arrived"
