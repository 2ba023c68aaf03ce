"""Paying a charge: the money and the status change together, once, or not at all."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from ousel.accounts.service import set_status
from ousel.charges.lifecycle import LIFETIME_MICROS
from ousel.charges.refusals import ChargeNotCancelable, ChargeNotFound, ChargeNotPayable, OwnCharge
from ousel.charges.rules import Charge
from ousel.kernel.errors import Refusal
from ousel.ledger.batch import PostingResult
from ousel.ledger.history import HistoryQuery, page_of_entries
from ousel.ledger.refusals import AccountFrozen, InsufficientBalance
from ousel.ledger.rules import Account, Movement, Posting
from tests.support.accounts import person, unique_name, verify
from tests.support.clock import ManualClock
from tests.support.shop import AMOUNT, Shop, count_proven_payments, in_another_process, open_shop


async def test_a_payment_moves_the_money_and_the_status(shop: Shop, database_url: str) -> None:
    """The payer is debited, the merchant credited, and the charge names payer and transfer."""
    charge = await shop.charge(description="Two tickets")
    shop.clock.advance(seconds=60)

    paid = await shop.pay(charge)

    assert (paid.status, paid.paid_at, paid.paid_by) == ("paid", shop.clock(), shop.payer.id)
    assert paid.payer is not None
    assert (paid.payer.id, paid.payer.username) == (shop.payer.id, shop.payer.username)
    assert await shop.balances() == (AMOUNT, 100_000_000 - AMOUNT)
    query = HistoryQuery(account_id=shop.payer.id, limit=1)
    [(entry, counterparty), _] = await shop.database.read(
        lambda transaction: page_of_entries(transaction, query)
    )
    assert (entry.kind, entry.charge_id, entry.note) == ("charge_payment", charge.id, "Two tickets")
    assert (entry.transfer_id, counterparty.id) == (paid.transfer_id, shop.merchant.id)
    await verify(shop.database)
    assert await count_proven_payments(database_url) >= 1


async def _pay(shop: Shop, charge: Charge) -> None:
    await shop.pay(charge)


async def _cancel(shop: Shop, charge: Charge) -> None:
    await shop.charges.cancel(shop.merchant.id, charge.id)


async def _expire(shop: Shop, charge: Charge) -> None:
    shop.clock.now = charge.expires_at


@pytest.mark.parametrize(
    ("end", "status"), [(_pay, "paid"), (_cancel, "canceled"), (_expire, "expired")]
)
async def test_a_final_charge_stays_as_it_is(
    shop: Shop, end: Callable[[Shop, Charge], Awaitable[None]], status: str
) -> None:
    """A paid, canceled or expired charge can be neither paid nor canceled."""
    charge = await shop.charge()
    await end(shop, charge)
    before = await shop.charges.own_charge(shop.merchant.id, charge.id), await shop.balances()

    with pytest.raises(ChargeNotPayable) as not_payable:
        await shop.pay(charge)
    with pytest.raises(ChargeNotCancelable) as not_cancelable:
        await shop.charges.cancel(shop.merchant.id, charge.id)

    assert before[0].status == status
    members = {"charge_id": charge.id, "charge_status": status}
    assert not_payable.value.members == not_cancelable.value.members == members
    assert (
        await shop.charges.own_charge(shop.merchant.id, charge.id),
        await shop.balances(),
    ) == before
    await verify(shop.database)


async def _freeze(shop: Shop, account: Account) -> None:
    await shop.database.write(
        lambda transaction: set_status(transaction, f"@{account.username}", "frozen")
    )


async def _poor_payer(shop: Shop) -> tuple[str, type[Refusal]]:
    return (await person(shop.database, unique_name("poor"), "2.499999")).id, InsufficientBalance


async def _own_charge(shop: Shop) -> tuple[str, type[Refusal]]:
    return shop.merchant.id, OwnCharge


async def _frozen_payer(shop: Shop) -> tuple[str, type[Refusal]]:
    await _freeze(shop, shop.payer)
    return shop.payer.id, AccountFrozen


async def _frozen_merchant(shop: Shop) -> tuple[str, type[Refusal]]:
    await _freeze(shop, shop.merchant)
    return shop.payer.id, AccountFrozen


@pytest.mark.parametrize("arrange", [_poor_payer, _own_charge, _frozen_payer, _frozen_merchant])
async def test_a_refused_payment_leaves_the_charge_open(
    shop: Shop, arrange: Callable[[Shop], Awaitable[tuple[str, type[Refusal]]]]
) -> None:
    """The payer gets the reason, the charge stays created, and no money moves."""
    charge = await shop.charge()
    payer_id, refusal = await arrange(shop)

    with pytest.raises(refusal):
        await shop.charges.pay(charge, payer_id)

    assert await shop.status(charge) == "created"
    assert await shop.balances() == (0, 100_000_000)
    await verify(shop.database)


async def test_a_charge_that_does_not_exist_is_not_found(shop: Shop) -> None:
    """Every operation refuses unknown and malformed ids as ChargeNotFound."""
    missing = msgspec.structs.replace(await shop.charge(), id="ch_" + "0" * 26)

    with pytest.raises(ChargeNotFound):
        await shop.pay(missing)
    for charge_id in (missing.id, "ch_", "../etc", "ch_" + "0" * 25 + "\x00"):
        with pytest.raises(ChargeNotFound):
            await shop.charges.charge_by_id(charge_id)
        with pytest.raises(ChargeNotFound):
            await shop.charges.own_charge(shop.merchant.id, charge_id)
        with pytest.raises(ChargeNotFound):
            await shop.charges.cancel(shop.merchant.id, charge_id)


async def test_the_last_microsecond_still_counts(shop: Shop) -> None:
    """One microsecond before expires_at a charge can be paid and canceled, and is created."""
    to_pay, to_cancel, to_leave = [await shop.charge() for _ in range(3)]
    shop.clock.now = to_pay.expires_at - 1

    assert (await shop.pay(to_pay)).status == "paid"
    assert (await shop.charges.cancel(shop.merchant.id, to_cancel.id)).status == "canceled"
    assert await shop.status(to_leave) == "created"


async def test_from_expires_at_on_it_is_too_late(shop: Shop) -> None:
    """In the microsecond of expires_at, payment, cancellation and reads find it expired."""
    charges = [await shop.charge() for _ in range(3)]
    shop.clock.now = charges[0].expires_at

    with pytest.raises(ChargeNotPayable) as not_payable:
        await shop.pay(charges[0])
    with pytest.raises(ChargeNotCancelable) as not_cancelable:
        await shop.charges.cancel(shop.merchant.id, charges[1].id)

    assert not_payable.value.members["charge_status"] == "expired"
    assert not_cancelable.value.members["charge_status"] == "expired"
    assert [await shop.status(charge) for charge in charges] == ["expired"] * 3
    assert await shop.balances() == (0, 100_000_000)
    assert charges[0].expires_at == charges[0].created_at + LIFETIME_MICROS


async def test_many_payers_at_once_pay_once(shop: Shop) -> None:
    """Of 20 payers of one charge, in two processes, one pays and 19 are refused."""
    charge = await shop.charge()
    payers = [await person(shop.database, unique_name("payer"), "10") for _ in range(20)]
    services = [shop.charges, in_another_process(shop, shop.clock).charges]

    outcomes = await asyncio.gather(
        *(services[number % 2].pay(charge, payer.id) for number, payer in enumerate(payers)),
        return_exceptions=True,
    )

    refused = [each for each in outcomes if isinstance(each, ChargeNotPayable)]
    assert Counter(type(each) for each in outcomes) == {type(None): 1, ChargeNotPayable: 19}
    assert {each.members["charge_status"] for each in refused} == {"paid"}
    assert (await shop.balances())[0] == AMOUNT
    await verify(shop.database)


async def test_payments_and_transfers_share_a_batch(shop: Shop) -> None:
    """Payments, transfers and refusals are decided in the same batch."""
    charges = [await shop.charge(amount=1_000_000) for _ in range(5)]
    others = await open_shop(shop.database, shop.clock)

    def transfer(number: int) -> Awaitable[PostingResult]:
        return shop.posting_queue.post(
            Posting(
                transfer_id=f"tr_{unique_name('x')}",
                kind="transfer",
                debit_account_id=shop.payer.id,
                credit_identifier=f"@{others.payer.username}",
                amount=number,
            )
        )

    payments, moved = await asyncio.gather(
        asyncio.gather(*(shop.pay(charge) for charge in charges * 2), return_exceptions=True),
        asyncio.gather(*(transfer(number) for number in range(1, 6))),
    )

    assert Counter(type(each) for each in payments) == {Charge: 5, ChargeNotPayable: 5}
    assert [await shop.status(charge) for charge in charges] == ["paid"] * 5
    assert all(isinstance(posted.outcome, Movement) for posted in moved)
    assert await shop.balances() == (5_000_000, 100_000_000 - 5_000_000 - 15)
    await verify(shop.database)


async def test_a_host_with_a_late_clock_pays_no_expired_charge(shop: Shop) -> None:
    """Once one host has answered expired, a host whose clock is late answers the same."""
    charge = await shop.charge()
    late = in_another_process(shop, ManualClock())
    late.clock.now = charge.expires_at - 1_000_000
    shop.clock.now = charge.expires_at

    assert await shop.status(charge) == "expired"

    with pytest.raises(ChargeNotPayable):
        await late.pay(charge)
    with pytest.raises(ChargeNotCancelable):
        await late.charges.cancel(shop.merchant.id, charge.id)
    assert await late.status(charge) == "expired"
