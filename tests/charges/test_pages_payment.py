"""Paying on the page: once, however often the button is pressed; and the receipt."""

import asyncio
from collections import Counter

import pytest

from ousel.charges.service import ChargeService
from ousel.kernel.concurrency import ConcurrencyLimit
from ousel.kernel.errors import DatabaseUnavailable, OutcomeUnknown
from ousel.ledger.history import HistoryQuery, page_of_entries
from ousel.ledger.rules import Account, Entry
from ousel.people.rules import IDENTITY_CHECK_SECONDS
from tests.charges.portal_shop import PAY, PRICE, SUCCESS_URL, Customer, PortalShop, checkout_page
from tests.support.accounts import verify
from tests.support.forms import form_with
from tests.support.portal import open_portal
from tests.support.shop import until_waiters
from tests.support.visitor import PASSWORD

pytestmark = pytest.mark.one_engine


async def payments_of(portal_shop: PortalShop, account: Account) -> list[Entry]:
    """Return the payment entries of an account, newest first."""
    query = HistoryQuery(account_id=account.id, limit=100, kind="charge_payment")
    found = await portal_shop.database.read(lambda transaction: page_of_entries(transaction, query))
    return [entry for entry, _ in found]


async def test_a_payer_is_not_told_what_only_the_operator_can_use(
    portal_shop: PortalShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says that the payer can try again."""

    async def fail(*_: object) -> None:
        raise DatabaseUnavailable("/srv/ousel is away.", retry_after_seconds=1)

    charge = await portal_shop.charge()
    payer = await portal_shop.person(40_000_000)
    monkeypatch.setattr(ChargeService, "pay", fail)

    answer = await payer.visitor.press(f"/pay/{charge.id}", PAY)

    assert answer.status_code == 503
    assert "The database is not available." in answer.text
    assert "You can try again: a payment is never taken twice." in answer.text
    assert "/srv/ousel" not in answer.text


async def test_an_unknown_outcome_is_not_reported_as_nothing_written(
    portal_shop: PortalShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is still away, so the checkout page cannot be shown at once."""

    async def lose_the_answer(*_: object) -> None:
        async def be_away(*_: object) -> None:
            raise DatabaseUnavailable("PostgreSQL cannot be reached.")

        monkeypatch.setattr(ChargeService, "charge_by_id", be_away)
        raise OutcomeUnknown("The answer to the commit was lost.")

    charge = await portal_shop.charge()
    payer = await portal_shop.person(40_000_000)
    monkeypatch.setattr(ChargeService, "pay", lose_the_answer)

    answer = await payer.visitor.press(f"/pay/{charge.id}", PAY)

    assert answer.status_code == 503
    assert "The outcome is not known" in answer.text
    assert "What you sent may have taken effect" in answer.text
    assert "commit" not in answer.text


async def test_paying_moves_the_money_and_leads_to_the_receipt(portal_shop: PortalShop) -> None:
    """Both balances move by the amount, with one entry on each side, and the charge is paid."""
    charge = await portal_shop.charge(description="Two tickets", reference="order-1")
    payer = await portal_shop.person(40_000_000)

    location = await payer.pay(charge)
    receipt = await payer.visitor.get(location)

    paid = await portal_shop.charges.own_charge(charge.account_id, charge.id)
    [debit] = await payments_of(portal_shop, payer.account)
    [credit] = await payments_of(portal_shop, portal_shop.merchant)
    assert location == f"/pay/{charge.id}/receipt?onward=yes"
    assert (paid.status, paid.paid_by, paid.transfer_id) == (
        "paid",
        payer.account.id,
        debit.transfer_id,
    )
    assert (debit.amount, debit.charge_id) == (-PRICE, charge.id)
    assert (credit.amount, credit.transfer_id) == (PRICE, debit.transfer_id)
    assert await payer.balance() == 15_000_000
    assert await portal_shop.merchant_balance() == PRICE
    assert receipt.headers["refresh"] == f"5; url={SUCCESS_URL}"
    assert "Paid. Thank you." in receipt.text
    for text in ("25.00 OUSD", "Two tickets", "order-1", debit.transfer_id, debit.hash):
        assert text in receipt.text
    for account in (payer.account, portal_shop.merchant):
        assert account.display_name in receipt.text
        assert account.account_number in receipt.text
    assert f'href="/activity/{debit.sequence}/receipt" download>Download' in receipt.text
    assert "<dt>Fingerprint</dt>" in receipt.text


async def test_paying_over_the_limit_asks_for_the_password(portal_shop: PortalShop) -> None:
    """The page announces it; the charge is paid after the password, and not before."""
    charge = await portal_shop.charge(1_000_000_001)
    payer = await portal_shop.person(2_000_000_000)
    portal_shop.portal.clock.advance(seconds=IDENTITY_CHECK_SECONDS)
    assert "Next, we ask for your password, code or passkey" in await payer.page(charge)

    asked = await payer.visitor.press(f"/pay/{charge.id}", "Pay 1,000.000001 OUSD")
    assert asked.status_code == 403
    assert await payments_of(portal_shop, payer.account) == []
    form = form_with(asked.text, "Continue")
    fields = form.pressed("Continue", {"identity_password": PASSWORD})
    paid = [await payer.visitor.send(form, fields) for _ in range(2)]

    receipt = f"/pay/{charge.id}/receipt?onward=yes"
    assert [answer.headers["location"] for answer in paid] == [receipt, receipt]
    assert [entry.amount for entry in await payments_of(portal_shop, payer.account)] == [
        -1_000_000_001
    ]


async def test_a_charge_that_is_closed_needs_no_password(portal_shop: PortalShop) -> None:
    """A page that is out of date leads to the receipt, or to what has become of the charge."""
    paid, canceled = [await portal_shop.charge(1_000_000_001) for _ in range(2)]
    payer, laptop = await portal_shop.person(2_000_000_000), portal_shop.portal.visitor()
    await laptop.sign_in(payer.account.username)
    button = "Pay 1,000.000001 OUSD"
    forms = [await laptop.form(f"/pay/{charge.id}", button) for charge in (paid, canceled)]
    await payer.visitor.press(f"/pay/{paid.id}", button)
    await portal_shop.charges.cancel(canceled.account_id, canceled.id)
    portal_shop.clock.advance(seconds=IDENTITY_CHECK_SECONDS)

    answers = [await laptop.send(form, form.fields) for form in forms]

    assert [answer.headers["location"] for answer in answers] == [
        f"/pay/{paid.id}/receipt?onward=yes",
        f"/pay/{canceled.id}",
    ]
    assert await payer.balance() == 999_999_999


async def test_the_receipt_redirects_only_the_payer_and_only_at_first(
    portal_shop: PortalShop,
) -> None:
    """Whoever comes back to the same address later can read and print the receipt."""
    owner, payer = await portal_shop.person(), await portal_shop.person(PRICE)
    charge = await owner.charge(await owner.app("Shop"), success_url=SUCCESS_URL)
    address = await payer.pay(charge)

    portal_shop.clock.advance(seconds=20)
    for visitor, redirects in ((payer.visitor, True), (owner.visitor, False)):
        page = await visitor.get(address)
        assert ("refresh" in page.headers) is redirects
        assert ("Stay here" in page.text) is redirects
    portal_shop.clock.advance(micros=1)
    later = await payer.visitor.get(address)
    assert "refresh" not in later.headers
    assert f'href="{SUCCESS_URL}">Return to' in later.text


async def test_the_receipt_redirects_only_after_a_payment_with_a_success_url(
    portal_shop: PortalShop,
) -> None:
    """Without success_url, or when it is opened later, the receipt does not redirect."""
    without_url, with_url = await portal_shop.charge(success_url=None), await portal_shop.charge()
    payer = await portal_shop.person(2 * PRICE)

    receipt = await payer.visitor.get(await payer.pay(without_url))
    await payer.pay(with_url)
    later = await payer.visitor.get(f"/pay/{with_url.id}/receipt")

    assert "refresh" not in receipt.headers
    assert "Return to" not in receipt.text
    assert "refresh" not in later.headers
    assert f'href="{SUCCESS_URL}">Return to' in later.text


async def test_a_repeated_form_leads_to_the_receipt(portal_shop: PortalShop) -> None:
    """A double click, a reload and a stale page pay once."""
    charge = await portal_shop.charge()
    payer = await portal_shop.person(3 * PRICE)
    form = await payer.visitor.form(f"/pay/{charge.id}", PAY)

    answers = [await payer.visitor.post(form.action, form.fields) for _ in range(3)]

    assert {answer.headers["location"] for answer in answers} == {
        f"/pay/{charge.id}/receipt?onward=yes"
    }
    assert await payer.balance() == 2 * PRICE
    assert "You paid this" in await payer.page(charge)


async def test_many_forms_at_once_pay_once(portal_shop: PortalShop) -> None:
    """Ten forms of one payer at once: one entry, and all ten lead to the receipt."""
    charge = await portal_shop.charge()
    payer = await portal_shop.person(10 * PRICE)
    form = await payer.visitor.form(f"/pay/{charge.id}", PAY)

    answers = await asyncio.gather(
        *(payer.visitor.post(form.action, form.fields) for _ in range(10))
    )

    assert Counter(answer.headers["location"] for answer in answers) == {
        f"/pay/{charge.id}/receipt?onward=yes": 10
    }
    assert len(await payments_of(portal_shop, payer.account)) == 1
    assert await payer.balance() == 9 * PRICE


async def test_several_payers_at_once_pay_once(portal_shop: PortalShop) -> None:
    """One gets the receipt; the others read that nothing was taken, and nothing was."""
    charge = await portal_shop.charge()
    people = [await portal_shop.person(PRICE) for _ in range(4)]
    forms = [await each.visitor.form(f"/pay/{charge.id}", PAY) for each in people]

    answers = await asyncio.gather(
        *(
            each.visitor.post(form.action, form.fields)
            for each, form in zip(people, forms, strict=True)
        )
    )

    outcomes = Counter(answer.headers["location"] for answer in answers)
    assert outcomes == {f"/pay/{charge.id}/receipt?onward=yes": 1, f"/pay/{charge.id}": 3}
    assert sorted([await each.balance() for each in people]) == [0, PRICE, PRICE, PRICE]
    assert await portal_shop.merchant_balance() == PRICE
    pages = [await each.page(charge) for each in people]
    assert sum("You paid this" in page for page in pages) == 1
    assert sum("Someone else paid it; nothing was taken" in page for page in pages) == 3
    await verify(portal_shop.database)


async def hash_on_receipt(portal_shop: PortalShop, person: Customer, charge_id: str) -> str:
    """Return the hash on the person's receipt, and check that it is that of their own entry."""
    page = (await person.visitor.get(f"/pay/{charge_id}/receipt")).text
    [entry] = await payments_of(portal_shop, person.account)
    assert entry.hash in page
    return entry.hash


async def test_only_payer_and_recipient_have_a_receipt(portal_shop: PortalShop) -> None:
    """Each receipt shows the hash of the viewer's own entry; others get a 404."""
    owner = await portal_shop.person()
    charge = await owner.charge(await owner.app("Shop"))
    payer, other = await portal_shop.person(PRICE), await portal_shop.person()

    before = await payer.visitor.get(f"/pay/{charge.id}/receipt")
    await payer.pay(charge)
    others = await other.visitor.get(f"/pay/{charge.id}/receipt")
    strangers = await portal_shop.portal.visitor().get(f"/pay/{charge.id}/receipt")
    unknown = await payer.visitor.get("/pay/ch_00000000000000000000000000/receipt")

    assert [each.status_code for each in (before, others, unknown)] == [404] * 3
    assert strangers.headers["location"] == f"/login?next=%2Fpay%2F{charge.id}%2Freceipt"
    hashes = [await hash_on_receipt(portal_shop, each, charge.id) for each in (owner, payer)]
    assert len(set(hashes)) == 2
    assert "You were paid." in (await owner.visitor.get(f"/pay/{charge.id}/receipt")).text


async def test_a_receipt_is_found_in_a_long_history(portal_shop: PortalShop) -> None:
    """It is not mixed up with other payments, not even with those of the same microsecond."""
    owner = await portal_shop.person()
    app = await owner.app("Shop")
    payer = await portal_shop.person(10 * PRICE)
    charges = [await owner.charge(app, reference=f"order-{number}") for number in range(6)]
    for number, charge in enumerate(charges):
        await payer.pay(charge)
        portal_shop.clock.advance(micros=number % 2)

    for number, charge in enumerate(charges):
        for person in (owner, payer):
            page = (await person.visitor.get(f"/pay/{charge.id}/receipt")).text
            paid = await portal_shop.charges.own_charge(charge.account_id, charge.id)
            newest_first = await payments_of(portal_shop, person.account)
            assert newest_first[5 - number].hash in page
            assert paid.transfer_id == newest_first[5 - number].transfer_id


async def test_the_status_is_answered_as_soon_as_it_is_final(portal_shop: PortalShop) -> None:
    """A page that waits learns of the payment at once; it waits for at most 25 seconds."""
    charge = await portal_shop.charge()
    payer, screen = await portal_shop.person(PRICE), portal_shop.portal.visitor()
    address = f"/pay/{charge.id}/status"

    plain = await screen.get(address)
    waiting = asyncio.create_task(screen.get(address, Prefer="wait=60"))
    await until_waiters(portal_shop.portal.charge_watch, 1)
    await payer.pay(charge)
    answer = await asyncio.wait_for(waiting, 10)

    assert plain.json() == {"status": "created", "milliseconds_left": 7_200_000}
    assert "preference-applied" not in plain.headers
    assert answer.json()["status"] == "paid"
    assert answer.headers["preference-applied"] == "wait=25"


async def test_one_address_cannot_use_up_all_waits(portal_shop: PortalShop) -> None:
    """Beyond the limit for one address, a page is answered at once; others and partners wait."""
    portal = portal_shop.portal
    portal.charges.visitor_waits = ConcurrencyLimit(total_max=2, holder_max=1)
    crowded, other = await portal_shop.charge(), await portal_shop.charge()
    near, far, further = (portal.visitor(f"2001:db8:{number}::1") for number in range(3))
    waiting = [asyncio.create_task(near.get(f"/pay/{crowded.id}/status", Prefer="wait=60"))]
    await until_waiters(portal.charge_watch, 1)

    turned_away = await near.get(f"/pay/{other.id}/status", Prefer="wait=60")
    waiting.append(asyncio.create_task(far.get(f"/pay/{crowded.id}/status", Prefer="wait=60")))
    await until_waiters(portal.charge_watch, 2)
    turned_away_too = await further.get(f"/pay/{crowded.id}/status", Prefer="wait=60")
    partner = portal.call(f"/charges/{crowded.id}", portal_shop.key, Prefer="wait=60")
    waiting.append(asyncio.create_task(partner))
    await until_waiters(portal.charge_watch, 3)
    portal.charge_watch.notify(crowded.id)
    portal.charge_watch.stop()

    for answer in (turned_away, turned_away_too):
        assert answer.json()["status"] == "created"
        assert "preference-applied" not in answer.headers
    for answer in await asyncio.gather(*waiting):
        assert "preference-applied" in answer.headers


async def test_a_wait_that_is_given_up_makes_room_at_once(portal_shop: PortalShop) -> None:
    """The next visitor from the same address can wait."""
    portal = portal_shop.portal
    portal.charges.visitor_waits = ConcurrencyLimit(holder_max=1)
    charge, visitor = await portal_shop.charge(), portal.visitor()
    for _ in range(2):
        waiting = asyncio.create_task(visitor.get(f"/pay/{charge.id}/status", Prefer="wait=60"))
        await until_waiters(portal.charge_watch, 1)
        waiting.cancel()
        await until_waiters(portal.charge_watch, 0)


async def test_the_status_of_an_unknown_charge_is_not_found(portal_shop: PortalShop) -> None:
    """The answer is a 404."""
    answer = await portal_shop.portal.visitor().get("/pay/ch_00000000000000000000000000/status")

    assert answer.status_code == 404


async def test_a_busy_server_says_so_and_takes_nothing(
    portal_shop: PortalShop, database_url: str
) -> None:
    """The page shows the reason and the button again, and no money has moved."""
    charge = await portal_shop.charge()
    payer = await portal_shop.person(PRICE)
    async with open_portal(database_url, queue_limit=0) as busy:
        visitor = busy.visitor()
        await visitor.sign_in(payer.account.username)
        answer = await visitor.press(f"/pay/{charge.id}", PAY)

    assert answer.status_code == 503
    assert "a payment is never taken twice" in answer.text
    assert f">{PAY}</button>" in answer.text
    assert await payer.balance() == PRICE
    assert "You paid this" not in await checkout_page(payer.visitor, charge)
