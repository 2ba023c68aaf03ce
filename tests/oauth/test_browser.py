"""The way to consent in a real browser: by its labels, under its policy, to other origins."""

from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import expect

from tests.oauth.consents import bearer
from tests.oauth.towns import Town, allow, arrived, brought, opened_town, sign_in

pytestmark = pytest.mark.slow

# Every ASCII character, some that are not, and what could be taken for a part of the address.
STATE = "".join(map(chr, range(256))) + "\U0001f426 %00%2B&iss=https://evil.example&code=1#\\"


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """One town for all tests of the module."""
    with opened_town(tmp_path_factory.mktemp("town")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _pages_closed(town: Town) -> Iterator[None]:
    yield
    town.stage.close_pages()


def test_a_person_connects_an_app_and_ends_it(town: Town) -> None:
    """Sign in, allow, come back with the state, see the connection, disconnect: it is dead."""
    page = town.stage.page()
    page.goto(town.address(scope="profile balance", state=STATE))
    sign_in(page, "grace")
    expect(page.get_by_role("heading", name=town.stage.people.app.name)).to_be_visible()
    expect(page.get_by_text("Your balance")).to_be_visible()
    expect(page.get_by_text(town.callback, exact=True)).to_be_visible()
    back = brought(allow(page))
    token = town.token(back["code"][0])
    profile = f"{town.stage.server.base_url}/user/me"
    before = httpx2.get(profile, headers=bearer(token))

    page.goto("/connections")
    expect(page.get_by_role("heading", name=town.stage.people.app.name)).to_be_visible()
    page.get_by_role("button", name="Disconnect", exact=True).click()
    expect(page.get_by_text("is disconnected")).to_be_visible()
    after = httpx2.get(profile, headers=bearer(token))

    assert (back["state"], back["iss"]) == ([STATE], [town.stage.server.origin])
    assert before.json()["username"] == "grace"
    assert after.status_code == 401


def test_a_person_denies_an_app(town: Town) -> None:
    """Deny leads back to the app's own site with the error."""
    page = town.stage.page("grace")
    page.goto(town.address())
    page.get_by_role("button", name="Deny").click()

    assert brought(arrived(page))["error"] == ["access_denied"]


def test_someone_new_signs_up_on_the_way(town: Town) -> None:
    """From the app to sign-in, to sign-up, to the question, and back to the app."""
    page = town.stage.page()
    page.goto(town.address(state=STATE))
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

    assert brought(allow(page))["state"] == [STATE]


def test_the_wrong_account_is_changed_for_another(town: Town) -> None:
    """Use another account leads through sign-in back to the same question."""
    page = town.stage.page("ada")
    page.goto(town.address(state="x"))
    page.get_by_role("button", name="Use another account").click()
    sign_in(page, "grace")
    expect(page.get_by_role("definition").filter(has_text="@grace")).to_be_visible()
    back = brought(allow(page))
    me = httpx2.get(
        f"{town.stage.server.base_url}/user/me", headers=bearer(town.token(back["code"][0]))
    )

    assert back["state"] == ["x"]
    assert me.json()["username"] == "grace"


@pytest.mark.parametrize("button", ["Allow", "Deny"])
def test_an_app_may_lead_on_to_another_origin(town: Town, button: str) -> None:
    """A callback on one origin that ends on another does not strand the person."""
    page = town.stage.page("grace")
    page.goto(town.address(redirect_uri=town.onward_callback))
    page.get_by_role("button", name=button).click()

    assert arrived(page) == f"{town.stage.shop_origin}/arrived"
