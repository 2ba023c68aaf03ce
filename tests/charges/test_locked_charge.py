"""Another transaction keeps a charge locked: only those who need this charge wait."""

import asyncio

import pytest

from ousel.charges.refusals import ChargeNotCancelable
from ousel.database.postgres import WRITE_CONNECTIONS_MAX
from ousel.kernel.deadlines import set_deadline
from ousel.kernel.errors import DeadlineExceeded
from tests.support.engines import Engine
from tests.support.raw_sql import RawSql
from tests.support.shop import Shop
from tests.support.waiting import until

LOCK = "SELECT id FROM charges WHERE id = ? FOR UPDATE"
WAITED_SECONDS = 0.3


@pytest.fixture
def engine() -> Engine:
    """Only PostgreSQL: SQLite has no row locks."""
    return "postgresql"


@pytest.fixture
def database_url(postgres_url: str) -> str:
    """A new database."""
    return postgres_url


@pytest.mark.slow
async def test_cancellations_of_one_charge_leave_connections_to_others(
    shop: Shop, database_url: str
) -> None:
    """However often it is asked for, one waits for the charge; other charges are paid meanwhile."""
    locked, other = await shop.charge(), await shop.charge()
    async with RawSql(database_url) as holder:
        await holder.run("BEGIN")
        await holder.run(LOCK, locked.id)
        cancellations = [
            asyncio.create_task(shop.charges.cancel(shop.merchant.id, locked.id))
            for _ in range(2 * WRITE_CONNECTIONS_MAX)
        ]
        await until(lambda: shop.database.connections().in_use)
        await asyncio.sleep(WAITED_SECONDS)
        assert shop.database.connections().in_use == 1
        assert (await shop.pay(other)).status == "paid"
        assert not any(each.done() for each in cancellations)
        await holder.run("COMMIT")

    canceled, *refused = await asyncio.gather(*cancellations, return_exceptions=True)
    assert not isinstance(canceled, BaseException)
    assert canceled.status == "canceled"
    assert all(isinstance(each, ChargeNotCancelable) for each in refused)


async def test_a_cancellation_waits_for_its_turn_until_its_deadline(
    shop: Shop, database_url: str
) -> None:
    """Then it is refused, and the one before it goes on."""
    locked = await shop.charge()

    async def cancel_in_time() -> None:
        set_deadline(asyncio.get_running_loop().time() + WAITED_SECONDS)
        await shop.charges.cancel(shop.merchant.id, locked.id)

    async with RawSql(database_url) as holder:
        await holder.run("BEGIN")
        await holder.run(LOCK, locked.id)
        first = asyncio.create_task(shop.charges.cancel(shop.merchant.id, locked.id))
        await until(lambda: shop.database.connections().in_use)
        with pytest.raises(DeadlineExceeded):
            await asyncio.create_task(cancel_in_time())
        assert not first.done()
        await holder.run("COMMIT")

    assert (await first).status == "canceled"
