"""Paying on the page: once, whoever presses how often; and the receipt that proves it."""

import asyncio
from collections import Counter

import pytest

from ousel.charges import notifier
from ousel.ledger.history import HistoryQuery, newest_entries
from ousel.ledger.rules import Account, Entry
from tests.charges.shops import waited_at
from tests.charges.tills import PAY, PRICE, SUCCESS_URL, Person, Till, page_of
from tests.support.accounts import verify
from tests.support.portal import open_portal


async def entries_of(till: Till, account: Account) -> list[Entry]:
    """Return an account's payments, newest first."""
    query = HistoryQuery(account_id=account.id, limit=100, kind="charge_payment")
    found = await till.shop.database.read(lambda transaction: newest_entries(transaction, query))
    return [entry for entry, _ in found]


async def test_paying_moves_the_money_and_leads_to_the_receipt(till: Till) -> None:
    """Both balances move by the amount, with one entry on each side, and the charge is paid."""
    charge = await till.charge(description="Two tickets", reference="order-1")
    payer = await till.person(40_000_000)

    location = await payer.pay(charge)
    receipt = await payer.visitor.get(location)

    paid = await till.shop.charges.own_charge(charge.account_id, charge.id)
    [debit] = await entries_of(till, payer.account)
    [credit] = await entries_of(till, till.shop.merchant)
    assert location == f"/pay/{charge.id}/receipt?onward=yes"
    assert (paid.status, paid.paid_by, paid.transfer_id) == (
        "paid",
        payer.account.id,
        debit.transfer_id,
    )
    assert (debit.amount, debit.charge_id) == (-PRICE, charge.id)
    assert (credit.amount, credit.transfer_id) == (PRICE, debit.transfer_id)
    assert await payer.balance() == 15_000_000
    assert await till.merchant_balance() == PRICE
    assert receipt.headers["refresh"] == f"5; url={SUCCESS_URL}"
    for text in ("25.00 OUSD", "Two tickets", "order-1", debit.transfer_id, debit.hash):
        assert text in receipt.text
    for account in (payer.account, till.shop.merchant):
        assert account.display_name in receipt.text
        assert account.account_number in receipt.text


async def test_the_receipt_stays_where_the_partner_gave_no_address(till: Till) -> None:
    """Without success_url, and when it is opened later, the receipt leads nowhere by itself."""
    silent, spoken = await till.charge(success_url=None), await till.charge()
    payer = await till.person(2 * PRICE)

    paid_silently = await payer.visitor.get(await payer.pay(silent))
    await payer.pay(spoken)
    later = await payer.visitor.get(f"/pay/{spoken.id}/receipt")

    assert "refresh" not in paid_silently.headers
    assert "Return to" not in paid_silently.text
    assert "refresh" not in later.headers
    assert f'href="{SUCCESS_URL}">Return to' in later.text


async def test_a_form_sent_again_only_shows_the_receipt(till: Till) -> None:
    """A double click, a reload and a stale page pay once."""
    charge = await till.charge()
    payer = await till.person(3 * PRICE)
    form = await payer.visitor.form(f"/pay/{charge.id}", PAY)

    answers = [await payer.visitor.post(form.action, form.fields) for _ in range(3)]

    assert {answer.headers["location"] for answer in answers} == {
        f"/pay/{charge.id}/receipt?onward=yes"
    }
    assert await payer.balance() == 2 * PRICE
    assert "You paid this" in await payer.page(charge)


async def test_many_forms_at_once_pay_once(till: Till) -> None:
    """Ten forms of one payer in the same moment: one entry, and the receipt for all ten."""
    charge = await till.charge()
    payer = await till.person(10 * PRICE)
    form = await payer.visitor.form(f"/pay/{charge.id}", PAY)

    answers = await asyncio.gather(
        *(payer.visitor.post(form.action, form.fields) for _ in range(10))
    )

    assert Counter(answer.headers["location"] for answer in answers) == {
        f"/pay/{charge.id}/receipt?onward=yes": 10
    }
    assert len(await entries_of(till, payer.account)) == 1
    assert await payer.balance() == 9 * PRICE


async def test_two_payers_at_once_pay_once(till: Till) -> None:
    """One gets the receipt; the other reads that nothing was taken, and nothing was."""
    charge = await till.charge()
    people = [await till.person(PRICE) for _ in range(4)]
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
    assert await till.merchant_balance() == PRICE
    pages = [await each.page(charge) for each in people]
    assert sum("You paid this" in page for page in pages) == 1
    assert sum("Someone else paid it; nothing was taken" in page for page in pages) == 3
    await verify(till.shop.database)


async def hash_on_receipt(till: Till, person: Person, charge_id: str) -> str:
    """Return the hash that the person's receipt shows, and check that it is their own."""
    page = (await person.visitor.get(f"/pay/{charge_id}/receipt")).text
    [entry] = await entries_of(till, person.account)
    assert entry.hash in page
    return entry.hash


async def test_both_sides_have_a_receipt_and_nobody_else(till: Till) -> None:
    """Each side's receipt shows the hash of its own entry; to others there is none."""
    owner = await till.person()
    charge = await owner.charge(await owner.app("Shop"))
    payer, other = await till.person(PRICE), await till.person()

    before = await payer.visitor.get(f"/pay/{charge.id}/receipt")
    await payer.pay(charge)
    others = await other.visitor.get(f"/pay/{charge.id}/receipt")
    strangers = await till.portal.visitor().get(f"/pay/{charge.id}/receipt")
    unknown = await payer.visitor.get("/pay/ch_00000000000000000000000000/receipt")

    assert [each.status_code for each in (before, others, unknown)] == [404] * 3
    assert strangers.headers["location"] == f"/login?next=%2Fpay%2F{charge.id}%2Freceipt"
    hashes = [await hash_on_receipt(till, each, charge.id) for each in (owner, payer)]
    assert len(set(hashes)) == 2
    assert "You were paid." in (await owner.visitor.get(f"/pay/{charge.id}/receipt")).text


async def test_a_receipt_is_found_in_a_long_history(till: Till) -> None:
    """Payments before and after, at the same moment too, are not mistaken for this one."""
    owner = await till.person()
    app = await owner.app("Shop")
    payer = await till.person(10 * PRICE)
    charges = [await owner.charge(app, reference=f"order-{number}") for number in range(6)]
    for number, charge in enumerate(charges):
        await payer.pay(charge)
        till.clock.advance(micros=number % 2)

    for number, charge in enumerate(charges):
        for person in (owner, payer):
            page = (await person.visitor.get(f"/pay/{charge.id}/receipt")).text
            paid = await till.shop.charges.own_charge(charge.account_id, charge.id)
            newest_first = await entries_of(till, person.account)
            assert newest_first[5 - number].hash in page
            assert paid.transfer_id == newest_first[5 - number].transfer_id


async def test_the_status_is_answered_as_soon_as_it_is_final(till: Till) -> None:
    """A screen that waits learns of the payment at once, and waits for no more than 25 seconds."""
    charge = await till.charge()
    payer, screen = await till.person(PRICE), till.portal.visitor()
    address = f"/pay/{charge.id}/status"

    plain = await screen.get(address)
    waiting = asyncio.create_task(screen.get(address, Prefer="wait=60"))
    await waited_at(till.portal.charge_watch, 1)
    await payer.pay(charge)
    answer = await asyncio.wait_for(waiting, 10)

    assert plain.json() == {"status": "created", "milliseconds_left": 7_200_000}
    assert "preference-applied" not in plain.headers
    assert answer.json()["status"] == "paid"
    assert answer.headers["preference-applied"] == "wait=25"


@pytest.mark.slow
async def test_screens_leave_room_to_others(till: Till, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few may wait at one charge's page; one more is answered at once, elsewhere there is room."""
    monkeypatch.setattr(notifier, "ANONYMOUS_WAITERS_MAX", 1)
    crowded, other = await till.charge(), await till.charge()
    screen = till.portal.visitor()

    waiting = asyncio.create_task(screen.get(f"/pay/{crowded.id}/status", Prefer="wait=2"))
    await waited_at(till.portal.charge_watch, 1)
    turned_away = await screen.get(f"/pay/{crowded.id}/status", Prefer="wait=2")
    elsewhere = await screen.get(f"/pay/{other.id}/status", Prefer="wait=1")

    assert "preference-applied" not in turned_away.headers
    assert elsewhere.headers["preference-applied"] == "wait=1"
    assert (await waiting).headers["preference-applied"] == "wait=2"


async def test_the_status_of_an_unknown_charge_is_not_found(till: Till) -> None:
    """There is nothing to wait for."""
    answer = await till.portal.visitor().get("/pay/ch_00000000000000000000000000/status")

    assert answer.status_code == 404


async def test_a_server_that_is_too_busy_says_so_and_takes_nothing(
    till: Till, database_url: str
) -> None:
    """The page comes back with the reason and the button, and nothing has moved."""
    charge = await till.charge()
    payer = await till.person(PRICE)
    async with open_portal(database_url, queue_limit=0) as busy:
        visitor = busy.visitor()
        await visitor.sign_in(payer.account.username)
        answer = await visitor.press(f"/pay/{charge.id}", PAY)

    assert answer.status_code == 503
    assert "a payment is never taken twice" in answer.text
    assert f">{PAY}</button>" in answer.text
    assert await payer.balance() == PRICE
    assert "You paid this" not in await page_of(payer.visitor, charge)
