"""The metrics count each outcome of a charge once, and nothing that did not happen."""

import asyncio

import pytest

from ousel.charges.lifecycle import LIFETIME_MICROS
from ousel.charges.refusals import ChargeNotCancelable, ChargeNotPayable, OwnCharge
from ousel.charges.service import ChargeService
from ousel.ledger.refusals import InsufficientBalance
from ousel.observation.metrics import ChargeMetrics
from tests.support.shop import Shop


@pytest.fixture
def metrics() -> ChargeMetrics:
    """Return metrics that start at zero."""
    return ChargeMetrics()


@pytest.fixture
def observed_shop(shop: Shop, metrics: ChargeMetrics) -> Shop:
    """Return a shop whose charge service reports to the metrics."""
    shop.charges = ChargeService(shop.database, shop.posting_queue, shop.clock, metrics)
    return shop


async def test_a_charge_that_expires_before_its_payment_is_counted(
    observed_shop: Shop, metrics: ChargeMetrics
) -> None:
    """It was payable when it was read, and expired when the payment was written."""
    charge = await observed_shop.charge()
    observed_shop.clock.advance(micros=LIFETIME_MICROS)

    with pytest.raises(ChargeNotPayable):
        await observed_shop.pay(charge)

    assert await observed_shop.status(charge) == "expired"
    assert metrics.outcomes == {"created": 1, "paid": 0, "canceled": 0, "expired": 1}


async def test_concurrent_requests_count_one_expiry(
    observed_shop: Shop, metrics: ChargeMetrics
) -> None:
    """Of concurrent reads and a cancellation, the first writes the expiry and counts it."""
    charge = await observed_shop.charge()
    observed_shop.clock.advance(micros=LIFETIME_MICROS)

    await asyncio.gather(
        *(observed_shop.status(charge) for _ in range(5)),
        *(observed_shop.charges.charge_by_id(charge.id) for _ in range(5)),
        observed_shop.charges.cancel(observed_shop.merchant.id, charge.id),
        return_exceptions=True,
    )

    assert metrics.outcomes["expired"] == 1


async def test_refused_requests_are_not_counted(
    observed_shop: Shop, metrics: ChargeMetrics
) -> None:
    """Neither a short balance, an own charge, a second payment nor a late cancellation counts."""
    dear, charge = await observed_shop.charge(10**9), await observed_shop.charge()
    with pytest.raises(InsufficientBalance):
        await observed_shop.pay(dear)
    with pytest.raises(OwnCharge):
        await observed_shop.charges.pay(charge, observed_shop.merchant.id)
    observed_shop.clock.advance(seconds=90)
    await observed_shop.pay(charge)
    with pytest.raises(ChargeNotPayable):
        await observed_shop.pay(charge)
    with pytest.raises(ChargeNotCancelable):
        await observed_shop.charges.cancel(observed_shop.merchant.id, charge.id)

    assert metrics.outcomes == {"created": 2, "paid": 1, "canceled": 0, "expired": 0}
    assert metrics.payment_seconds.total == 90
