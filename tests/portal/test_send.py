"""Sending money: a form, a confirmation page, and a receipt; each intent moves money once."""

import asyncio
import re
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest

from ousel.accounts.service import set_status
from ousel.kernel.errors import DatabaseUnavailable
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import Account
from tests.support.accounts import balance, person, verify
from tests.support.engines import ENGINES
from tests.support.forms import form_with
from tests.support.portal import Portal
from tests.support.visitor import Visitor

pytestmark = pytest.mark.parametrize("engine", ENGINES)  # these pages move money

SEND = "Send 25.00 OUSD"


class Sender:
    """Ada, who has 100.00 OUSD and sends money to Grace."""

    def __init__(self, portal: Portal, visitor: Visitor, own: Account, grace: Account) -> None:
        self.portal = portal
        self.visitor = visitor
        self.own = own
        self.grace = grace

    async def confirmation(self, **fields: str) -> str:
        """Fill in the form, and return the address of the confirmation page."""
        filled = {"to": "@grace", "amount": "25"} | fields
        answer = await self.visitor.press("/send", "Continue", **filled)
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"])

    async def balances(self) -> tuple[float, float]:
        """Return what Ada and Grace have."""
        found = [await balance(self.portal.database, each) for each in (self.own, self.grace)]
        return found[0] / 1_000_000, found[1] / 1_000_000


@pytest.fixture
async def sender(portal: Portal, ada: Visitor) -> Sender:
    """Ada, with money, beside Grace."""
    grace = await person(portal.database, "grace", clock=portal.clock, display_name="Grace Hopper")
    await person(portal.database, "bank", "1000", portal.clock)
    own = await portal.fund("ada", "100")
    return Sender(portal, ada, own, grace)


async def test_money_is_sent_after_the_recipient_was_shown(sender: Sender) -> None:
    """By username, number or email: the name comes first, then the money, then a receipt."""
    names = ("@Grace", sender.grace.account_number, "grace@example.com", "grace")
    for number, to in enumerate(names, 1):
        address = await sender.confirmation(to=to, note="Two tickets")
        page = (await sender.visitor.get(address)).text
        assert "Grace Hopper" in page
        assert "@grace" in page
        assert sender.grace.account_number in page
        assert (await sender.balances())[1] == (number - 1) * 25  # nothing has moved yet

        sent = await sender.visitor.press(address, SEND)
        receipt = await sender.visitor.get(sent.headers["location"])

        assert sent.status_code == 303
        assert "Grace Hopper has received 25.00 OUSD." in receipt.text
        assert "Two tickets" in receipt.text
        assert "Transfer sent" in receipt.text
        assert await sender.balances() == (100 - number * 25, number * 25)
    await verify(sender.portal.database)


@pytest.mark.one_engine
async def test_a_link_fills_in_the_form(sender: Sender) -> None:
    """Recipient, amount and note can be in the address, and are shown as text."""
    query = urlencode({"to": "@grace", "amount": "5", "note": '"><script>'})
    form = await sender.visitor.form(f"/send?{query}", "Continue")

    assert form.fields["to"] == "@grace"
    assert form.fields["amount"] == "5"
    assert form.fields["note"] == '"><script>'
    assert re.fullmatch(r"send_[0-9a-v]{26}", form.fields["idempotency_key"])


@pytest.mark.one_engine
async def test_every_wrong_field_is_named(sender: Sender) -> None:
    """All at once, with what was typed still there."""
    answer = await sender.visitor.press(
        "/send", "Continue", to="@nobody", amount="5,50", note="x" * 501
    )

    assert answer.status_code == 400
    for name, reason in (
        ("to", "No account has this identifier."),
        ("amount", "Write a point before the decimals, such as 5.50."),
        ("note", "The note must have at most 500 characters."),
    ):
        assert f'<p class="error" id="{name}-error">{reason}</p>' in answer.text
    assert form_with(answer.text, "Continue").fields["amount"] == "5,50"
    assert answer.text.count("autofocus") == 1


WRONG = {
    "to=": "Name the recipient",
    "to=@ada": "This is your own account.",
    "to=@ice": "This account is frozen, so it cannot receive money.",
    "to=OU84 0000 000000": "its check digits are wrong",
    "amount=100.000001": "Your balance is only 100.00 OUSD.",
    "amount=0": "The amount must be at least 0.000001.",
}


async def test_what_cannot_be_sent_is_refused_before_the_page_to_confirm(sender: Sender) -> None:
    """Each reason is beside its field."""
    await person(sender.portal.database, "ice")
    await sender.portal.database.write(lambda each: set_status(each, "@ice", "frozen"))
    for wrong, reason in WRONG.items():
        name, _, value = wrong.partition("=")
        filled = {"to": "@grace", "amount": "1"} | {name: value}
        answer = await sender.visitor.press("/send", "Continue", **filled)
        assert answer.status_code == 400, wrong
        assert f'id="{name}-error"' in answer.text, wrong
        assert reason in answer.text, wrong


async def test_an_intent_moves_money_once(sender: Sender) -> None:
    """Sent twice at once, sent again, reloaded, or opened again: one movement, one receipt."""
    address = await sender.confirmation()
    form = await sender.visitor.form(address, SEND)
    fields = form.pressed(SEND, {})

    answers = await asyncio.gather(*(sender.visitor.send(form, fields) for _ in range(3)))
    answers.append(await sender.visitor.send(form, fields))
    again = (await sender.visitor.get(address)).text

    assert {answer.status_code for answer in answers} == {303}
    locations = [answer.headers["location"] for answer in answers]
    receipts = [(await sender.visitor.get(location)).text for location in locations]
    assert len({urlsplit(location).path for location in locations}) == 1
    assert len([text for text in receipts if "<strong>Sent.</strong>" in text]) == 1
    assert "You have sent this already" in receipts[-1]
    assert "has received 25.00 OUSD once." in receipts[-1]
    assert "You have sent this already" in again
    assert SEND not in again
    assert await sender.balances() == (75, 25)


async def test_a_form_that_was_used_does_not_send_the_same_again(sender: Sender) -> None:
    """Going back to the form and on again shows that it was sent; other fields are a new intent."""
    form = await sender.visitor.form("/send", "Continue")
    same = form.pressed("Continue", {"to": "@grace", "amount": "25"})
    first = (await sender.visitor.send(form, same)).headers["location"]
    await sender.visitor.press(first, SEND)

    second = (await sender.visitor.send(form, same)).headers["location"]
    other = (await sender.visitor.send(form, same | {"amount": "26"})).headers["location"]

    assert "You have sent this already" in (await sender.visitor.get(second)).text
    await sender.visitor.press(other, "Send 26.00 OUSD")
    assert await sender.balances() == (49, 51)


async def test_one_form_sends_one_thing(sender: Sender) -> None:
    """Of two confirmation pages that one form led to, the second sends nothing and says so."""
    form = await sender.visitor.form("/send", "Continue")
    pages = []
    for amount in ("25", "26"):
        fields = form.pressed("Continue", {"to": "@grace", "amount": amount})
        pages.append((await sender.visitor.send(form, fields)).headers["location"])

    other = await sender.visitor.form(pages[1], "Send 26.00 OUSD")
    await sender.visitor.press(pages[0], SEND)
    refused = await sender.visitor.send(other, other.pressed("Send 26.00 OUSD", {}))

    assert refused.status_code == 409
    assert "Start again with a new form." in refused.text
    assert await sender.balances() == (75, 25)


@pytest.mark.one_engine
async def test_no_link_leads_to_a_page_to_confirm(sender: Sender) -> None:
    """Only a form of the same session does; anything else leads to the form."""
    address = await sender.confirmation()
    richer = address.replace("amount=25.00", "amount=99.00")
    await sender.portal.person("eve")
    stranger = sender.portal.visitor()
    await stranger.sign_in("eve")

    changed = await sender.visitor.get(richer)
    foreign = await stranger.get(address)
    posted = await sender.visitor.post(
        "/send/confirm", dict(_fields_of(richer), form_token=await _token(sender.visitor))
    )

    assert "99.00 OUSD" not in changed.text
    for answer in (changed, foreign, posted):
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/send?to=")
    assert await sender.balances() == (100, 0)


async def test_a_refusal_at_the_last_moment_moves_nothing(sender: Sender) -> None:
    """The money is gone or the account is frozen since: the page says so and can be sent again."""
    address = await sender.confirmation(amount="60")
    other = await sender.confirmation(amount="50")
    await sender.visitor.press(other, "Send 50.00 OUSD")

    refused = await sender.visitor.press(address, "Send 60.00 OUSD")
    await sender.portal.fund("ada", "10")
    sent = await sender.visitor.press(address, "Send 60.00 OUSD")

    assert refused.status_code == 400
    assert "Your balance is only 50.00 OUSD." in refused.text
    assert "Nothing was taken from your balance." in refused.text
    assert sent.status_code == 303
    assert await sender.balances() == (0, 110)


async def test_a_sender_is_not_told_what_only_the_operator_can_use(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says that the same can be sent again."""

    async def fail(*_: object) -> None:
        raise DatabaseUnavailable("/srv/ousel is away.", retry_after_seconds=1)

    address = await sender.confirmation()
    monkeypatch.setattr(PostingQueue, "post", fail)

    answer = await sender.visitor.press(address, SEND)

    assert answer.status_code == 503
    assert "You can try again: nothing is ever sent twice." in answer.text
    assert "/srv/ousel" not in answer.text


async def test_a_session_that_has_ended_sends_nothing(sender: Sender) -> None:
    """The confirmation page asks to sign in again."""
    address = await sender.confirmation()
    form = await sender.visitor.form(address, SEND)
    cookies = httpx2.Cookies(sender.visitor.client.cookies)
    await sender.visitor.press("/settings", "Sign out")
    sender.visitor.client.cookies = cookies

    answer = await sender.visitor.send(form, form.pressed(SEND, {}))

    assert answer.headers["location"].startswith("/login")
    assert await sender.balances() == (100, 0)


@pytest.mark.one_engine
async def test_activity_shows_how_to_be_paid(sender: Sender) -> None:
    """The number, and a link that fills in the form, as text and as a QR code."""
    page = (await sender.visitor.get("/activity")).text

    assert sender.own.account_number in page
    assert ">http://ousel.test/send?to=@ada</a>" in page
    assert 'src="data:image/svg+xml' in page


def _fields_of(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


async def _token(visitor: Visitor) -> str:
    return (await visitor.form("/send", "Continue")).fields["form_token"]
