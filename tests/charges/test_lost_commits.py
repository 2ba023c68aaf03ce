"""Payments that are being written while others read, and commits whose answers are lost."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest
from typing_extensions import override

from ousel.charges import store
from ousel.charges.payment import ChargePayments
from ousel.charges.refusals import ChargeNotCancelable
from ousel.charges.rules import Charge, ChargeQuery
from ousel.database.port import Result, Transaction, Work
from ousel.database.postgres import PostgresDatabase
from ousel.database.sqlite import SqliteDatabase
from ousel.kernel.errors import DatabaseUnavailable, OutcomeUnknown
from ousel.ledger.rules import Movement
from tests.support.accounts import verify
from tests.support.clock import ManualClock
from tests.support.controlled_database import ControlledDatabase, Fault
from tests.support.delegating_database import DelegatingDatabase
from tests.support.postgres_proxy import Cut, PostgresProxy
from tests.support.shop import AMOUNT, Shop, count_proven_payments, in_another_process, open_shop
from tests.support.slow_commits import commit_slowly


async def test_a_read_waits_for_a_payment_that_is_being_written(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read just after expires_at never answers expired if the charge is then paid."""
    charge = await shop.charge()
    shop.clock.now = charge.expires_at - 1
    settle = ChargePayments.mark_paid
    written = asyncio.Event()
    if isinstance(shop.database, SqliteDatabase):
        commit_slowly(shop.database, 0.2)

    async def slow(
        self: ChargePayments, transaction: Transaction, moved: Sequence[Movement], now: int
    ) -> None:
        shop.clock.now = charge.expires_at
        written.set()
        if not isinstance(shop.database, SqliteDatabase):
            await asyncio.sleep(0.2)
        await settle(self, transaction, moved, now)

    monkeypatch.setattr(ChargePayments, "mark_paid", slow)
    paying = asyncio.create_task(shop.pay(charge))
    await written.wait()
    assert not paying.done()

    expired = ChargeQuery(account_id=shop.merchant.id, limit=10, status="expired")
    status, listed = await asyncio.gather(shop.status(charge), shop.charges.list_charges(expired))

    assert status == "paid"
    assert listed == []
    paid = await paying
    assert (paid.status, paid.paid_at) == ("paid", charge.expires_at - 1)
    await verify(shop.database)


@pytest.fixture
async def proxied_shop(proxy: PostgresProxy) -> AsyncIterator[Shop]:
    """Open a shop whose database is reached through the proxy."""
    database = PostgresDatabase(proxy.url)
    await database.open()
    yield await open_shop(database, ManualClock())
    await database.close()


@pytest.mark.parametrize("oldest_first", [False, True])
async def test_a_list_shows_a_charge_whose_expiry_is_written_meanwhile(
    proxied_shop: Shop, monkeypatch: pytest.MonkeyPatch, *, oldest_first: bool
) -> None:
    """Each statement sees a state of its own, and none of them may miss the charge."""
    charge = await proxied_shop.charge()
    proxied_shop.clock.now = charge.expires_at
    read_page = store._page  # noqa: SLF001 - only between its calls can the expiry be written

    async def read_page_then_expire(*arguments: Any) -> list[Charge]:
        page = await read_page(*arguments)
        assert await proxied_shop.status(charge) == "expired"
        return page

    monkeypatch.setattr(store, "_page", read_page_then_expire)
    query = ChargeQuery(
        account_id=proxied_shop.merchant.id, limit=10, status="expired", oldest_first=oldest_first
    )
    listed = await proxied_shop.charges.list_charges(query)

    assert [(each.id, each.status) for each in listed] == [(charge.id, "expired")]


CUTS: list[list[Cut]] = [
    ["before the commit"],
    ["after the commit"],
    ["after the commit", "before the commit"],
]


@pytest.mark.parametrize("cuts", CUTS)
async def test_a_lost_commit_pays_once(
    proxied_shop: Shop, proxy: PostgresProxy, postgres_url: str, cuts: list[Cut]
) -> None:
    """The charge is paid once, and the payer learns it, whether the commit arrived or not."""
    charge = await proxied_shop.charge()
    proxy.cuts.extend(cuts)

    paid = await proxied_shop.pay(charge)

    assert not proxy.cuts
    assert paid.status == "paid"
    assert await proxied_shop.balances() == (AMOUNT, 100_000_000 - AMOUNT)
    assert await count_proven_payments(postgres_url) == 1
    await verify(proxied_shop.database)


@pytest.mark.parametrize("cuts", CUTS)
async def test_a_lost_commit_creates_and_cancels_once(
    proxied_shop: Shop, proxy: PostgresProxy, cuts: list[Cut]
) -> None:
    """Both are retried until the outcome is certain; only a second request is refused."""
    proxy.cuts.extend(cuts)
    charge = await proxied_shop.charge()
    proxy.cuts.extend(cuts)
    canceled = await proxied_shop.charges.cancel(proxied_shop.merchant.id, charge.id)

    assert not proxy.cuts
    assert canceled.status == "canceled"
    listed = await proxied_shop.charges.list_charges(
        ChargeQuery(account_id=proxied_shop.merchant.id, limit=10)
    )
    assert [each.id for each in listed] == [charge.id]
    proxied_shop.clock.advance(micros=1)
    with pytest.raises(ChargeNotCancelable):
        await proxied_shop.charges.cancel(proxied_shop.merchant.id, charge.id)


class UnreadableDatabase(DelegatingDatabase):
    """A database whose connections for reads are all busy."""

    @override
    async def read(self, work: Work[Result]) -> Result:
        raise DatabaseUnavailable("The test says so.")


async def test_a_cancellation_that_took_effect_is_answered_without_a_read(shop: Shop) -> None:
    """A refusal would say that nothing was written."""
    charge = await shop.charge()
    unreadable = msgspec.structs.replace(shop, database=UnreadableDatabase(shop.database))

    canceled = await in_another_process(unreadable, shop.clock).charges.cancel(
        shop.merchant.id, charge.id
    )

    assert canceled.status == "canceled"
    assert canceled == await shop.charges.own_charge(shop.merchant.id, charge.id)


@pytest.mark.parametrize("then", ["away", "broken"])
@pytest.mark.parametrize("cut", ["before the commit", "after the commit"])
async def test_an_uncertain_commit_is_an_unknown_outcome(shop: Shop, cut: Cut, then: Fault) -> None:
    """If something may have been written, no answer says otherwise, with or without a key."""
    controlled = ControlledDatabase(shop.database)
    cut_off = in_another_process(msgspec.structs.replace(shop, database=controlled), shop.clock)
    charge = await shop.charge()

    controlled.faults.extend([cut, then])
    with pytest.raises(OutcomeUnknown):
        await cut_off.charge()
    controlled.faults.extend([cut, then])
    with pytest.raises(OutcomeUnknown):
        await cut_off.charges.cancel(shop.merchant.id, charge.id)

    listed = await shop.charges.list_charges(ChargeQuery(account_id=shop.merchant.id, limit=10))
    took_effect = cut == "after the commit"
    assert len(listed) == 1 + took_effect
    assert await shop.status(charge) == ("canceled" if took_effect else "created")
