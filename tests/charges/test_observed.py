"""Those who watch are told of each outcome of a charge once, and of nothing that did not happen."""

import asyncio

import pytest

from ousel.charges.lifecycle import LIFETIME_MICROS
from ousel.charges.refusals import ChargeNotCancelable, ChargeNotPayable, OwnCharge
from ousel.charges.service import ChargeService
from ousel.ledger.refusals import InsufficientBalance
from ousel.observation.metrics import ChargeMetrics
from tests.charges.shops import Shop


@pytest.fixture
def metrics() -> ChargeMetrics:
    """Counts what it is told."""
    return ChargeMetrics()


@pytest.fixture
def watched(shop: Shop, metrics: ChargeMetrics) -> Shop:
    """A shop whose desk is watched."""
    shop.charges = ChargeService(shop.database, shop.posting_queue, shop.clock, metrics)
    return shop


async def test_a_charge_that_expires_on_the_way_is_seen(
    watched: Shop, metrics: ChargeMetrics
) -> None:
    """Payable when it was read, expired when the payment came to be written."""
    charge = await watched.charge()
    watched.clock.advance(micros=LIFETIME_MICROS)

    with pytest.raises(ChargeNotPayable):
        await watched.pay(charge)

    assert await watched.status(charge) == "expired"
    assert metrics.outcomes == {"created": 1, "paid": 0, "canceled": 0, "expired": 1}


async def test_many_who_look_at_once_see_one_expiry(watched: Shop, metrics: ChargeMetrics) -> None:
    """Reads, a list and a cancellation together: the first writes it down and counts it."""
    charge = await watched.charge()
    watched.clock.advance(micros=LIFETIME_MICROS)

    await asyncio.gather(
        *(watched.status(charge) for _ in range(5)),
        *(watched.charges.any_charge(charge.id) for _ in range(5)),
        watched.charges.cancel(watched.merchant.id, charge.id),
        return_exceptions=True,
    )

    assert metrics.outcomes["expired"] == 1


async def test_what_is_refused_is_no_outcome(watched: Shop, metrics: ChargeMetrics) -> None:
    """Too little money, one's own charge, a second payment, a late cancellation: none counts."""
    dear, charge = await watched.charge(10**9), await watched.charge()
    with pytest.raises(InsufficientBalance):
        await watched.pay(dear)
    with pytest.raises(OwnCharge):
        await watched.charges.pay(charge, watched.merchant.id)
    watched.clock.advance(seconds=90)
    await watched.pay(charge)
    with pytest.raises(ChargeNotPayable):
        await watched.pay(charge)
    with pytest.raises(ChargeNotCancelable):
        await watched.charges.cancel(watched.merchant.id, charge.id)

    assert metrics.outcomes == {"created": 2, "paid": 1, "canceled": 0, "expired": 0}
    assert metrics.payment_seconds.total == 90
