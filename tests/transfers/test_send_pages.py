"""The pages for sending money, when they are opened or sent again much later."""

import re
from html import unescape

import pytest

from ousel.kernel.errors import DatabaseUnavailable, OutcomeUnknown
from ousel.ledger.rules import Account
from ousel.people.rules import IDENTITY_CHECK_SECONDS
from ousel.transfers.sending import SendService
from tests.support.accounts import person
from tests.support.portal import Portal
from tests.support.visitor import Visitor

RECEIPT = "/activity/2?done=sent-earlier"


@pytest.fixture(autouse=True)
async def grace(portal: Portal) -> Account:
    """Grace, who has nothing yet."""
    return await person(portal.database, "grace", clock=portal.clock)


@pytest.fixture
async def ada(portal: Portal) -> Visitor:
    """Ada, who has 5,000.00 OUSD and sends money to Grace."""
    visitor = await portal.person("ada")
    await portal.fund("ada", "5000")
    return visitor


async def confirmation(visitor: Visitor, amount: str) -> str:
    """Fill in the form, and return the address of the confirmation page."""
    answer = await visitor.press("/send", "Continue", to="@grace", amount=amount, note="Lunch")
    return str(answer.headers["location"])


async def test_the_keyboard_of_a_phone_has_a_point(ada: Visitor) -> None:
    """The keypad for decimals has only a comma in many countries, so the form asks for none."""
    assert "inputmode" not in (await ada.get("/send")).text


async def test_a_new_session_is_told_what_was_sent(portal: Portal, ada: Visitor) -> None:
    """The old confirmation page leads to the receipt for its sender, and only for its sender."""
    address = await confirmation(ada, "25.00")
    await ada.press(address, "Send 25.00 OUSD")
    await ada.press("/settings", "Sign out")
    await ada.sign_in("ada")
    eve = await portal.person("eve")

    assert (await ada.get(address)).headers["location"] == RECEIPT
    assert (await eve.get(address)).headers["location"].startswith("/send?to=")


async def test_a_new_session_is_not_told_that_something_else_was_sent(ada: Visitor) -> None:
    """If one form led to two confirmation pages, the one that was not sent leads to the form."""
    form = await ada.form("/send", "Continue")
    filled = [form.pressed("Continue", {"to": "@grace", "amount": each}) for each in ("25", "26")]
    sent, other = [(await ada.send(form, fields)).headers["location"] for fields in filled]
    await ada.press(sent, "Send 25.00 OUSD")
    await ada.press("/settings", "Sign out")
    await ada.sign_in("ada")

    assert (await ada.get(other)).headers["location"].startswith("/send?to=")


async def test_what_was_sent_needs_no_password_again(portal: Portal, ada: Visitor) -> None:
    """Sent again later, a confirmation page leads to the receipt; what was not sent asks."""
    sent, unsent = await confirmation(ada, "1000.01"), await confirmation(ada, "1000.01")
    form = await ada.form(sent, "Send 1,000.01 OUSD")
    await ada.send(form, form.fields)
    portal.clock.advance(seconds=IDENTITY_CHECK_SECONDS)

    again = await ada.send(form, form.fields)
    asked = await ada.press(unsent, "Send 1,000.01 OUSD")

    assert again.headers["location"] == RECEIPT
    assert asked.status_code == 403
    assert "Nothing has been done yet." in asked.text


async def test_an_unknown_outcome_leads_back_to_the_same_confirmation(
    ada: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is still away, so the confirmation page cannot be shown at once.

    A new form would have a new idempotency key, and would send the money a second time.
    """
    address = await confirmation(ada, "25.00")
    form = await ada.form(address, "Send 25.00 OUSD")

    async def lose_the_answer(*_: object) -> None:
        raise OutcomeUnknown("The answer to the commit was lost.")

    async def be_away(*_: object) -> None:
        raise DatabaseUnavailable("PostgreSQL cannot be reached.")

    with monkeypatch.context() as during:
        during.setattr(SendService, "send", lose_the_answer)
        during.setattr(SendService, "review", be_away)
        answer = await ada.post(form.action, form.fields, Referer=f"http://ousel.test{address}")

    assert answer.status_code == 503
    assert "The outcome is not known" in answer.text
    [again] = re.findall(r'href="(\S+)">Open the page again', answer.text)
    assert (await ada.form(unescape(again), "Send 25.00 OUSD")).fields == form.fields
