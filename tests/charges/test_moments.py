"""The moments in between: a payment that is being written, a commit whose answer is lost."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec
import pytest

from ousel.charges.payment import ChargePayments
from ousel.charges.refusals import ChargeNotCancelable
from ousel.charges.store import ChargeQuery
from ousel.database.port import Transaction
from ousel.database.postgres import PostgresDatabase
from ousel.database.sqlite import SqliteDatabase
from ousel.kernel.errors import OutcomeUnknown
from ousel.ledger.rules import Movement
from tests.charges.shops import AMOUNT, Shop, beside, open_shop, paid_as_moved
from tests.ledger.databases import Fault, StagedDatabase
from tests.support.accounts import verify
from tests.support.clock import ManualClock
from tests.support.postgres_proxy import Cut, PostgresProxy
from tests.support.slow_commits import commit_slowly


async def test_a_payment_being_written_is_waited_for(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read just after expires_at never says expired of a charge that then turns out paid."""
    charge = await shop.charge()
    shop.clock.now = charge.expires_at - 1
    settle = ChargePayments.settle
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

    monkeypatch.setattr(ChargePayments, "settle", slow)
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
async def distant(proxy: PostgresProxy) -> AsyncIterator[Shop]:
    """A shop at the other end of the wire."""
    database = PostgresDatabase(proxy.url)
    await database.open()
    yield await open_shop(database, ManualClock())
    await database.close()


CUTS: list[list[Cut]] = [
    ["before the commit"],
    ["after the commit"],
    ["after the commit", "before the commit"],
]


@pytest.mark.parametrize("cuts", CUTS)
async def test_a_lost_commit_pays_once(
    distant: Shop, proxy: PostgresProxy, postgres_url: str, cuts: list[Cut]
) -> None:
    """The payer hears that the charge is paid, and paid once, whether the commit arrived or not."""
    charge = await distant.charge()
    proxy.cuts.extend(cuts)

    paid = await distant.pay(charge)

    assert not proxy.cuts
    assert paid.status == "paid"
    assert await distant.balances() == (AMOUNT, 100_000_000 - AMOUNT)
    assert await paid_as_moved(postgres_url) == 1
    await verify(distant.database)


@pytest.mark.parametrize("cuts", CUTS)
async def test_a_lost_commit_creates_and_cancels_once(
    distant: Shop, proxy: PostgresProxy, cuts: list[Cut]
) -> None:
    """Creation and cancellation settle by being repeated; only a second request is refused."""
    proxy.cuts.extend(cuts)
    charge = await distant.charge()
    proxy.cuts.extend(cuts)
    canceled = await distant.charges.cancel(distant.merchant.id, charge.id)

    assert not proxy.cuts
    assert canceled.status == "canceled"
    listed = await distant.charges.list_charges(
        ChargeQuery(account_id=distant.merchant.id, limit=10)
    )
    assert [each.id for each in listed] == [charge.id]
    distant.clock.advance(micros=1)
    with pytest.raises(ChargeNotCancelable):
        await distant.charges.cancel(distant.merchant.id, charge.id)


@pytest.mark.parametrize("then", ["away", "broken"])
@pytest.mark.parametrize("cut", ["before the commit", "after the commit"])
async def test_whatever_fails_in_doubt_is_an_unknown_outcome(
    shop: Shop, cut: Cut, then: Fault
) -> None:
    """Nobody is told that nothing was written when it may have been: not even without a key."""
    staged = StagedDatabase(shop.database)
    cut_off = beside(msgspec.structs.replace(shop, database=staged), shop.clock)
    charge = await shop.charge()

    staged.faults.extend([cut, then])
    with pytest.raises(OutcomeUnknown):
        await cut_off.charge()
    staged.faults.extend([cut, then])
    with pytest.raises(OutcomeUnknown):
        await cut_off.charges.cancel(shop.merchant.id, charge.id)

    listed = await shop.charges.list_charges(ChargeQuery(account_id=shop.merchant.id, limit=10))
    took_effect = cut == "after the commit"
    assert len(listed) == 1 + took_effect
    assert await shop.status(charge) == ("canceled" if took_effect else "created")
