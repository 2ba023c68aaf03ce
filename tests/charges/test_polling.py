"""Polls always answer what is stored, even if another process pays or cancels the charge."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ousel.charges.refusals import ChargeNotFound
from ousel.database.addresses import open_database
from tests.support.clock import ManualClock
from tests.support.shop import Shop, in_another_process, open_shop


async def test_a_cached_charge_is_not_shown_to_other_accounts(shop: Shop) -> None:
    """After a process has read a charge for its owner, other accounts still get not found."""
    charge = await shop.charge()
    assert await shop.status(charge) == "created"
    for _ in range(2):
        with pytest.raises(ChargeNotFound):
            await shop.charges.own_charge(shop.payer.id, charge.id)
    assert await shop.status(charge) == "created"


async def test_a_process_that_cached_the_open_charge_shows_who_paid(shop: Shop) -> None:
    """All fields of a payment in another process are shown, not only the status."""
    other = in_another_process(shop, shop.clock)
    charge = await shop.charge()
    assert await other.status(charge) == "created"
    paid = await shop.pay(charge)
    polled = await other.charges.own_charge(shop.merchant.id, charge.id)

    assert polled == paid
    assert polled.payer is not None
    assert polled.payer.username == shop.payer.username


ENDS = {"pay": "paid", "cancel": "canceled", "expire": "expired"}


@given(steps=st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["poll", *ENDS])), max_size=25))
@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_poll_is_never_out_of_date(database_url: str, steps: list[tuple[int, str]]) -> None:
    """After any steps of one process, another that polls the charges answers the same."""

    async def run() -> None:
        async with open_database(database_url) as database:
            shop = await open_shop(database, ManualClock())
            other = in_another_process(shop, shop.clock)
            charges = [await shop.charge(1) for _ in range(4)]
            expected = ["created"] * 4
            for number, step in steps:
                if step in ENDS and expected[number] == "created":
                    if step == "pay":
                        await shop.pay(charges[number])
                    elif step == "cancel":
                        await shop.charges.cancel(shop.merchant.id, charges[number].id)
                    else:
                        shop.clock.now = charges[number].expires_at
                        expected = ["expired" if e == "created" else e for e in expected]
                    expected[number] = ENDS[step]
                assert await asyncio.gather(*map(other.status, charges)) == expected

    asyncio.run(run())
