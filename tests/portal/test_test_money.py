"""Test money: in a sandbox, people give it to themselves; a live server has none."""

import pytest

from ousel.accounts.service import set_status
from ousel.people.rules import TEST_MONEY_LIMIT
from tests.support.accounts import verify
from tests.support.engines import ENGINES
from tests.support.forms import form_with
from tests.support.portal import Portal
from tests.support.shop import open_shop
from tests.support.visitor import Visitor

pytestmark = pytest.mark.parametrize("engine", ENGINES)  # this form moves money

PATH = "/sandbox/test-money"
BUTTON = "Get test money"


async def test_a_new_person_gets_test_money_and_pays(sandbox: Portal) -> None:
    """The checkout page leads to the form, and the form leads back to the checkout page."""
    shop = await open_shop(sandbox.database, sandbox.clock, kind="test")
    charge = await shop.charge(25_000_000)
    ada = await sandbox.person("ada")
    link = f"/activity?next=/pay/{charge.id}"
    assert f'<a href="{link}">{BUTTON}</a>' in (await ada.get(f"/pay/{charge.id}")).text

    back = (await ada.press(link, BUTTON)).headers["location"]
    paid = await ada.press(back, "Pay 25.00 OUSD")

    activity = (await ada.get("/activity")).text
    assert back == f"/pay/{charge.id}"
    assert paid.headers["location"] == f"/pay/{charge.id}/receipt?onward=yes"
    assert '<p class="figure">75.00 OUSD</p>' in activity
    assert "+100.00 OUSD" in activity
    assert "The button adds 100.00 OUSD" in activity
    await verify(sandbox.database)


async def test_the_page_suggests_what_a_person_can_do(sandbox: Portal) -> None:
    """Without money, to get some; with money, to send it. Each page links to the sandbox's mail."""
    ada = await sandbox.person("ada")
    send, quiet_send = '<a class="button" href="/send">', '<a class="button quiet" href="/send">'
    button, quiet_button = f"<button>{BUTTON}<", f'<button class="quiet">{BUTTON}<'
    empty = (await ada.get("/activity")).text
    assert quiet_send in empty
    assert button in empty

    await ada.press("/activity", BUTTON)

    funded = (await ada.get("/activity")).text
    assert send in funded
    assert quiet_button in funded
    assert '<a href="/sandbox/mail">Sandbox mail</a>' in funded


async def test_test_money_is_limited(sandbox: Portal) -> None:
    """After the last allowed request, the next one is refused and moves nothing."""
    ada = await sandbox.person("ada")
    path = "/activity?next=//elsewhere.example"
    answers = [await ada.press(path, BUTTON) for _ in range(TEST_MONEY_LIMIT.attempts_max + 1)]

    assert {answer.headers["location"] for answer in answers[:-1]} == {"/activity"}
    assert answers[-1].status_code == 429
    assert "asked for test money too often" in answers[-1].text
    assert '<p class="figure">2,000.00 OUSD</p>' in (await ada.get("/activity")).text


async def test_test_money_needs_a_form_of_this_site(sandbox: Portal) -> None:
    """Without the form's token, or for a frozen account, nothing moves."""
    ada = await sandbox.person("ada")
    form = await ada.form("/activity", BUTTON)
    forged = await ada.post(PATH, {})
    await sandbox.database.write(lambda each: set_status(each, "@ada", "frozen"))
    frozen = await ada.send(form, form.pressed(BUTTON, {}))

    activity = (await ada.get("/activity")).text
    assert (forged.status_code, frozen.status_code) == (403, 400)
    assert BUTTON not in activity
    assert '<p class="figure">0.00 OUSD</p>' in activity


async def test_a_live_server_has_no_test_money(ada: Visitor) -> None:
    """Neither the page offers it nor the path exists."""
    page = (await ada.get("/activity")).text
    fields = form_with(page, "Sign out").fields

    assert BUTTON not in page
    assert (await ada.post(PATH, fields)).status_code == 404


async def test_the_first_steps_of_a_partner_name_test_money(sandbox: Portal) -> None:
    """Before the first transfer."""
    ada = await sandbox.person("ada")
    app = await ada.create_app("Shop")
    assert f"press “{BUTTON}”" in (await ada.get(f"{app}/first-steps")).text
