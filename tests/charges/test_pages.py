"""The checkout page: what it says and offers depends on the charge and the viewer."""

from collections.abc import Awaitable, Callable

import httpx2
import pytest

from ousel.charges.lifecycle import LIFETIME_MICROS
from ousel.charges.records import charge_record
from ousel.charges.rules import Charge
from ousel.site import qr_codes
from ousel.site.qr_codes import qr_code
from tests.charges.portal_shop import (
    CANCEL_URL,
    PAY,
    PRICE,
    SUCCESS_URL,
    Customer,
    PortalShop,
    checkout_page,
)
from tests.support.forms import forms_of

NOTHING_TAKEN = "Nothing was taken from your balance."
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


pytestmark = pytest.mark.one_engine


def offers_payment(page: str) -> bool:
    """Return whether the page has the button that pays."""
    return any(PAY in form.buttons for form in forms_of(page))


async def test_a_payer_sees_all_details(portal_shop: PortalShop) -> None:
    """App, owner, amount, description, reference, the payer's name and balance, and the button."""
    charge = await portal_shop.charge(description="Two tickets\nRow 7", reference="order-1")
    payer = await portal_shop.person(40_500_000)

    page = await payer.page(charge)

    assert f"<h1>{portal_shop.app.name}</h1>" in page
    assert f"@{portal_shop.merchant.username}" in page
    assert '<p class="figure">25.00 OUSD</p>' in page
    assert "Two tickets\nRow 7" in page
    assert "order-1" in page
    assert payer.account.display_name in page
    assert "40.50 OUSD" in page
    assert offers_payment(page)
    assert f'href="{CANCEL_URL}">Cancel</a>' in page


async def test_a_signed_out_visitor_signs_in_and_returns_to_the_charge(
    portal_shop: PortalShop,
) -> None:
    """Signing in or up from the page leads back to it; only then is payment offered."""
    charge = await portal_shop.charge()
    stranger = portal_shop.portal.visitor()

    page = await checkout_page(stranger, charge)
    signed_up = await stranger.press(
        f"/signup?next=/pay/{charge.id}",
        "Create account",
        username=f"new_{charge.id[-8:]}",
        email=f"{charge.id}@example.com",
        display_name="New",
        password="correct horse battery",
    )

    assert f'href="/login?next=/pay/{charge.id}">Sign in</a>' in page
    assert f'href="/signup?next=/pay/{charge.id}">Create an account</a>' in page
    assert not offers_payment(page)
    assert signed_up.headers["location"] == f"/pay/{charge.id}"
    assert "Your balance is 25.00 OUSD too low." in await checkout_page(stranger, charge)


async def test_using_another_account_leads_back_to_the_charge(portal_shop: PortalShop) -> None:
    """Signing out from the page does not lose the charge, for its owner as for a payer."""
    owner, payer = await portal_shop.person(), await portal_shop.person(PRICE)
    charge = await owner.charge(await owner.app("Own"))

    for person in (owner, payer):
        left = await person.visitor.press(f"/pay/{charge.id}", "Use another account")

        assert left.headers["location"] == f"/login?next=%2Fpay%2F{charge.id}"
        back = await person.visitor.sign_in(payer.account.username, page=left.headers["location"])
        assert back.headers["location"] == f"/pay/{charge.id}"


async def test_too_little_balance_says_by_how_much_and_stays_payable(
    portal_shop: PortalShop,
) -> None:
    """The page says how much is missing, and after “Pay” that nothing was paid."""
    charge = await portal_shop.charge()
    payer = await portal_shop.person(3_000_000)

    page = await payer.page(charge)
    refused = await payer.visitor.press(f"/pay/{charge.id}", PAY)
    await payer.fund(22_000_000)
    paid = await payer.pay(charge)

    assert "Your balance is 22.00 OUSD too low." in page
    assert payer.account.account_number in page
    assert "Nothing was paid." not in page
    assert refused.status_code == 400
    assert "Nothing was paid. Your balance is 22.00 OUSD too low." in refused.text
    assert paid.startswith(f"/pay/{charge.id}/receipt")
    assert await payer.balance() == 0


async def test_a_balance_that_just_covers_the_amount_is_enough(portal_shop: PortalShop) -> None:
    """Exactly the amount is enough; one millionth less is short by one millionth."""
    charge = await portal_shop.charge()
    enough, short = await portal_shop.person(PRICE), await portal_shop.person(PRICE - 1)

    assert "short." not in await enough.page(charge)
    assert "Your balance is 0.000001 OUSD too low." in await short.page(charge)


async def frozen_payer(portal_shop: PortalShop, _: Charge) -> Customer:
    """Return a payer whose account is frozen."""
    payer = await portal_shop.person(PRICE)
    await payer.set_status("frozen")
    return payer


async def payer_of_frozen_merchant(portal_shop: PortalShop, _: Charge) -> Customer:
    """Return a payer, after the merchant's account was frozen."""
    await portal_shop.set_status(portal_shop.merchant, "frozen")
    return await portal_shop.person(PRICE)


async def payer_after_expiry(portal_shop: PortalShop, _: Charge) -> Customer:
    """Return a payer who comes after the charge has expired."""
    payer = await portal_shop.person(PRICE)
    portal_shop.clock.advance(micros=LIFETIME_MICROS)
    return payer


async def payer_after_cancellation(portal_shop: PortalShop, charge: Charge) -> Customer:
    """Return a payer who comes after the charge was canceled."""
    await portal_shop.charges.cancel(charge.account_id, charge.id)
    return await portal_shop.person(PRICE)


async def payer_after_payment(portal_shop: PortalShop, charge: Charge) -> Customer:
    """Return a payer who comes after somebody else has paid."""
    await portal_shop.pay(charge)
    return await portal_shop.person(PRICE)


@pytest.mark.parametrize(
    ("arrange", "outcome"),
    [
        (frozen_payer, ""),
        (payer_after_expiry, "Expired: "),
        (payer_after_cancellation, "Canceled: "),
        (payer_after_payment, "Paid: "),
    ],
)
async def test_the_title_begins_with_what_became_of_the_charge(
    portal_shop: PortalShop,
    arrange: Callable[[PortalShop, Charge], Awaitable[Customer]],
    outcome: str,
) -> None:
    """A screen reader reads the title aloud when an open page is replaced."""
    charge = await portal_shop.charge()
    person = await arrange(portal_shop, charge)

    page = await person.page(charge)

    assert f"<title>{outcome}25.00 OUSD to {portal_shop.app.name} · Ousel</title>" in page


@pytest.mark.parametrize(
    ("arrange", "says", "refusal"),
    [
        (frozen_payer, "Your account is frozen.", NOTHING_TAKEN),
        (payer_of_frozen_merchant, "cannot be paid at the moment.", "Its account is frozen."),
        (payer_after_expiry, "This charge has expired", NOTHING_TAKEN),
        (payer_after_cancellation, "This charge was canceled", NOTHING_TAKEN),
        (payer_after_payment, "This charge is paid.", "Someone else paid it; nothing was taken"),
    ],
)
async def test_a_page_without_payment_says_why_and_moves_nothing(
    portal_shop: PortalShop,
    arrange: Callable[[PortalShop, Charge], Awaitable[Customer]],
    says: str,
    refusal: str,
) -> None:
    """Each reason has its own text and no button; a form sent anyway leads back to the page."""
    charge = await portal_shop.charge()
    person = await arrange(portal_shop, charge)
    before = await portal_shop.merchant_balance()

    page = await person.page(charge)

    assert says in page
    assert refusal in page
    assert not offers_payment(page)
    assert await person.post_form(charge) == f"/pay/{charge.id}"
    assert await person.balance() == PRICE
    assert await portal_shop.merchant_balance() == before


async def test_a_page_without_facts_has_no_list_of_them(portal_shop: PortalShop) -> None:
    """A canceled charge without a reference has neither a reference nor time left."""
    charge = await portal_shop.charge(reference=None)
    person = await payer_after_cancellation(portal_shop, charge)

    assert "<dl" not in await person.page(charge)


async def test_an_owner_can_show_but_not_pay_the_charge(portal_shop: PortalShop) -> None:
    """The owner sees the QR code, but no button; a form sent anyway moves nothing."""
    owner = await portal_shop.person(PRICE)
    app = await owner.app("Own")
    charge = await owner.charge(app)

    page = await owner.page(charge)

    assert "This is your own charge." in page
    assert "Let the payer scan this" in page
    assert f"/apps/{app.id}/charges/{charge.id}" in page
    assert not offers_payment(page)
    assert await owner.post_form(charge) == f"/pay/{charge.id}"
    assert await owner.balance() == PRICE


async def test_the_qr_code_leads_to_the_same_page(portal_shop: PortalShop) -> None:
    """The QR code contains the checkout_url of the charge, on the portal's origin."""
    charge = await portal_shop.charge()
    checkout_url = charge_record(charge, portal_shop.portal.settings.portal_url).checkout_url

    page = await checkout_page(portal_shop.portal.visitor(), charge)

    assert checkout_url == f"http://ousel.test/pay/{charge.id}"
    assert f'<img class="qr" src="{qr_code(checkout_url)}"' in page


async def test_the_qr_code_of_a_charge_is_drawn_once(
    portal_shop: PortalShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening a page many times must not keep the server busy with drawing."""
    charge = await portal_shop.charge()
    drawn: list[str] = []

    def record_and_draw(address: str) -> str:
        drawn.append(address)
        return qr_code(address)

    monkeypatch.setattr(qr_codes, "qr_code", record_and_draw)
    shown = [await checkout_page(portal_shop.portal.visitor(), charge) for _ in range(3)]

    assert drawn == [f"http://ousel.test/pay/{charge.id}"]
    assert all(f'<img class="qr" src="{qr_code(drawn[0])}"' in page for page in shown)


@pytest.mark.parametrize("charge_id", ["ch_00000000000000000000000000", "ch_", "ä"])
async def test_an_unknown_id_shows_a_page_that_helps(
    portal_shop: PortalShop, charge_id: str
) -> None:
    """The page says what to do about a broken link."""
    answer = await portal_shop.portal.visitor().get(f"/pay/{charge_id}")

    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")
    assert "There is no such charge" in answer.text


async def test_the_cancel_link_leaves_the_charge_open(portal_shop: PortalShop) -> None:
    """The link leads to the cancel_url, or to the start page if there is none."""
    with_address, without = await portal_shop.charge(), await portal_shop.charge(cancel_url=None)
    payer = await portal_shop.person(PRICE)

    assert f'href="{CANCEL_URL}">Cancel</a>' in await payer.page(with_address)
    assert 'href="/">Cancel</a>' in await payer.page(without)
    assert await portal_shop.status(with_address) == "created"


async def test_the_last_microsecond_is_payable_and_the_next_is_not(portal_shop: PortalShop) -> None:
    """The time left is rounded up: one microsecond is shown as 1 ms, not 0."""
    charge = await portal_shop.charge()
    payer = await portal_shop.person(PRICE)
    portal_shop.clock.advance(micros=LIFETIME_MICROS - 1)

    before = await payer.page(charge)
    status_before = (await payer.visitor.get(f"/pay/{charge.id}/status")).json()
    portal_shop.clock.advance(micros=1)
    after = await payer.page(charge)
    status_after = (await payer.visitor.get(f"/pay/{charge.id}/status")).json()

    assert offers_payment(before)
    assert 'data-milliseconds="1"' in before
    assert status_before == {"status": "created", "milliseconds_left": 1}
    assert "This charge has expired" in after
    assert status_after == {"status": "expired", "milliseconds_left": 0}


async def test_the_time_of_expiry_is_never_shown_too_early(portal_shop: PortalShop) -> None:
    """Without scripts the page shows the time to the second, rounded up."""
    portal_shop.clock.now = 1_790_000_000_000_000
    whole = await portal_shop.charge()
    portal_shop.clock.now += 1
    later = await portal_shop.charge()
    stranger = portal_shop.portal.visitor()

    assert "until 2026-09-21 16:13:20 UTC" in await checkout_page(stranger, whole)
    assert "until 2026-09-21 16:13:21 UTC" in await checkout_page(stranger, later)


async def test_texts_of_partners_are_escaped(portal_shop: PortalShop) -> None:
    """This holds for names, descriptions, references and addresses, on every page."""
    owner = await portal_shop.person(0, display_name=EVIL)
    app = await owner.app(EVIL)
    evil_url = f"https://shop.example/?{EVIL.replace(' ', '')}"
    charge = await owner.charge(
        app, description=EVIL, reference=EVIL, success_url=evil_url, cancel_url=evil_url
    )
    payer = await portal_shop.person(PRICE, display_name=EVIL)
    charges = f"/apps/{app.id}/charges"
    pages = [await payer.visitor.get(f"/pay/{charge.id}")]
    receipt = await payer.pay(charge)
    pages += [await payer.visitor.get(path) for path in (receipt, f"/pay/{charge.id}")]
    pages += [await owner.visitor.get(path) for path in (charges, f"{charges}/{charge.id}")]
    pages += [await owner.visitor.get(f"{charges}?reference={EVIL}")]

    for page in pages:
        assert page.status_code == 200
        assert "&lt;script&gt;" in page.text
        assert "<script>alert" not in page.text
        assert "<img src=x" not in page.text


async def test_the_page_of_a_deleted_app_shows_its_owners_name(portal_shop: PortalShop) -> None:
    """Charges outlive their app, and the payer still reads who receives the money."""
    owner = await portal_shop.person(name="owner", display_name="Still Here Ltd")
    app = await owner.app("Gone")
    charge = await owner.charge(app)
    await owner.visitor.press_and_confirm(f"/apps/{app.id}", "Delete app")

    assert "<h1>Still Here Ltd</h1>" in await checkout_page(portal_shop.portal.visitor(), charge)
    own = await checkout_page(owner.visitor, charge)
    assert "Its app was deleted" in own
    assert app.id not in own


async def test_checkout_cannot_be_framed_or_cached(portal_shop: PortalShop) -> None:
    """The page has the strictest headers, and its forms post to this site only."""
    charge = await portal_shop.charge()

    answer = await portal_shop.portal.visitor().get(f"/pay/{charge.id}")

    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert policy.endswith("form-action 'self'")
    assert "unsafe" not in policy
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("headers", "token"),
    [({}, ""), ({}, "0" * 64), ({"Origin": "https://evil.example"}, None)],
)
async def test_a_form_from_another_site_pays_nothing(
    portal_shop: PortalShop, headers: dict[str, str], token: str | None
) -> None:
    """Without the token of the page, or from another origin, the form is refused."""
    charge = await portal_shop.charge()
    payer = await portal_shop.person(PRICE)
    form = await payer.visitor.form(f"/pay/{charge.id}", PAY)
    fields = form.fields if token is None else {"form_token": token}

    answer = await payer.visitor.post(form.action, fields, **headers)

    assert answer.status_code == 403
    assert await payer.balance() == PRICE
    assert await portal_shop.status(charge) == "created"


async def test_a_form_sent_after_signing_out_leads_to_sign_in(portal_shop: PortalShop) -> None:
    """It moves nothing; signing in leads back to the charge."""
    charge = await portal_shop.charge()
    stranger = portal_shop.portal.visitor()
    token = (await stranger.form("/login", "Sign in")).fields["form_token"]

    answer = await stranger.post(f"/pay/{charge.id}", {"form_token": token})

    assert answer.status_code == 303
    assert answer.headers["location"] == f"/login?next=%2Fpay%2F{charge.id}"


def redirect_of(answer: httpx2.Response) -> str | None:
    """Return the header that sends the browser to the partner, or None."""
    return answer.headers.get("refresh")


async def test_an_open_page_redirects_after_another_device_paid(portal_shop: PortalShop) -> None:
    """It does so for two minutes after the payment, and never for the owner."""
    owner = await portal_shop.person()
    charge = await owner.charge(await owner.app("Shop"), success_url=SUCCESS_URL)
    payer, screen = await portal_shop.person(PRICE), portal_shop.portal.visitor()
    address = f"/pay/{charge.id}?onward=yes"
    without_script = f'<noscript><meta http-equiv="refresh" content="10; url={address}"></noscript>'
    assert without_script in (await screen.get(f"/pay/{charge.id}")).text
    await payer.pay(charge)

    assert redirect_of(await screen.get(address)) == f"5; url={SUCCESS_URL}"
    assert redirect_of(await screen.get(f"/pay/{charge.id}")) is None
    assert redirect_of(await owner.visitor.get(address)) is None
    payers = await payer.visitor.get(address)
    assert payers.headers["location"] == f"/pay/{charge.id}/receipt?onward=yes"
    portal_shop.clock.advance(seconds=120)
    assert redirect_of(await screen.get(address)) == f"5; url={SUCCESS_URL}"
    portal_shop.clock.advance(micros=1)
    assert redirect_of(await screen.get(address)) is None
