"""Prefer: wait=N delays the answer until the charge is final, at almost no cost."""

import asyncio
import time
from collections.abc import Awaitable
from typing import Any

import pytest

from ousel.charges.lifecycle import LIFETIME_MICROS
from ousel.charges.rules import Charge
from ousel.database import change_notifier
from ousel.kernel.clock import system_clock
from tests.support.server import Server
from tests.support.shop import Shop, in_another_process, until_waiters
from tests.support.waiting import until

SECONDS_MAX = 30.0  # a busy machine is not a defect; the waits themselves last a minute


async def status_and_seconds(awaited: Awaitable[Charge]) -> tuple[str, float]:
    """Return the charge's status and how long it took to get it."""
    started = time.perf_counter()
    charge = await awaited
    return charge.status, time.perf_counter() - started


def start_waiting(shop: Shop, charge: Charge, seconds: float) -> "asyncio.Task[tuple[str, float]]":
    """Start to wait for a charge of the shop."""
    return asyncio.create_task(
        status_and_seconds(shop.charges.wait_for_outcome(shop.merchant.id, charge.id, seconds))
    )


def nobody_waits(shop: Shop) -> bool:
    """Return whether the notifier holds nothing any more."""
    return not shop.charges.notifier._awaited and shop.charges.notifier.waiter_count == 0  # noqa: SLF001


async def test_a_final_charge_is_answered_at_once(shop: Shop) -> None:
    """There is nothing to wait for."""
    charge = await shop.charge()
    await shop.pay(charge)

    status, _ = await asyncio.wait_for(start_waiting(shop, charge, 60), SECONDS_MAX)
    assert status == "paid"


async def test_without_an_outcome_the_wait_ends_in_time(shop: Shop) -> None:
    """After N seconds the charge is returned as it is, and the notifier holds nothing."""
    status, seconds = await start_waiting(shop, await shop.charge(), 0.3)

    assert status == "created"
    assert 0.3 <= seconds < SECONDS_MAX
    assert nobody_waits(shop)


async def test_a_payment_in_this_process_ends_waits_at_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everyone who waits for the charge is woken, and nobody who waits for another."""
    monkeypatch.setattr(change_notifier, "POLL_SECONDS", 60)  # so that no poll wakes them
    charge, other = await shop.charge(), await shop.charge()
    waiting = [start_waiting(shop, charge, 60) for _ in range(3)]
    elsewhere = start_waiting(shop, other, 0.5)
    await until_waiters(shop.charges.notifier, 4)

    await shop.pay(charge)
    woken = await asyncio.wait_for(asyncio.gather(*waiting), SECONDS_MAX)

    assert [status for status, _ in woken] == ["paid"] * 3
    assert (await elsewhere)[0] == "created"
    assert nobody_waits(shop)


@pytest.mark.parametrize("end", ["paid", "canceled"])
async def test_a_change_in_another_process_ends_waits(shop: Shop, end: str) -> None:
    """The notifier polls the database for what other processes write."""
    other = in_another_process(shop, shop.clock)
    charge = await shop.charge()
    waiting = start_waiting(shop, charge, 60)
    await until_waiters(shop.charges.notifier, 1)

    if end == "paid":
        await other.pay(charge)
    else:
        await other.charges.cancel(shop.merchant.id, charge.id)

    assert (await asyncio.wait_for(waiting, SECONDS_MAX))[0] == end


async def test_expiry_ends_waits_on_time(shop: Shop) -> None:
    """If the charge expires meanwhile, the wait ends with expired, then and not before."""
    live = in_another_process(shop, system_clock)
    shop.clock.now = system_clock() - LIFETIME_MICROS + 400_000
    charge = await shop.charge()

    status, _ = await asyncio.wait_for(start_waiting(live, charge, 60), SECONDS_MAX)

    assert status == "expired"
    assert system_clock() >= charge.expires_at


async def test_a_clock_that_jumps_past_expiry_ends_waits(shop: Shop) -> None:
    """When the sandbox clock jumps past expires_at, waits end."""
    charge = await shop.charge()
    waiting = start_waiting(shop, charge, 60)
    await until_waiters(shop.charges.notifier, 1)

    shop.clock.now = charge.expires_at

    assert (await asyncio.wait_for(waiting, SECONDS_MAX))[0] == "expired"


async def test_those_who_wait_for_an_expiry_write_it_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many wait for one charge, its expiry is one transaction."""
    charge = await shop.charge()
    waiting = [start_waiting(shop, charge, 60) for _ in range(20)]
    await until_waiters(shop.charges.notifier, 20)
    writes = 0
    write = shop.database.write

    async def count_and_write(work: Any, **options: Any) -> Any:
        nonlocal writes
        writes += 1
        return await write(work, **options)

    monkeypatch.setattr(shop.database, "write", count_and_write)
    shop.clock.now = charge.expires_at

    woken = await asyncio.wait_for(asyncio.gather(*waiting), SECONDS_MAX)
    assert [status for status, _ in woken] == ["expired"] * 20
    assert writes == 1


@pytest.mark.slow
async def test_all_waits_share_their_queries(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 waits cost one statement for each poll; without waits there are none."""
    charges = [await shop.charge() for _ in range(30)]
    reads = 0
    read = shop.database.read

    async def count_and_read(work: Any) -> Any:
        nonlocal reads
        reads += 1
        return await read(work)

    waiting = [start_waiting(shop, charge, 240) for charge in charges * 10]
    await until_waiters(shop.charges.notifier, 300)
    monkeypatch.setattr(shop.database, "read", count_and_read)
    started = time.monotonic()
    await until(lambda: reads >= 6)
    while_waiting = reads
    polls_max = 2 + (time.monotonic() - started) / change_notifier.POLL_SECONDS
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await until(lambda: shop.charges.notifier._polling is None)  # noqa: SLF001
    reads = 0
    await asyncio.sleep(2 * change_notifier.POLL_SECONDS)  # a poll would come in this time

    assert while_waiting <= polls_max
    assert reads == 0
    assert nobody_waits(shop)


async def test_a_canceled_wait_leaves_nothing_behind(shop: Shop) -> None:
    """This happens when a caller closes its connection."""
    waiting = start_waiting(shop, await shop.charge(), 60)
    await until_waiters(shop.charges.notifier, 1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert nobody_waits(shop)


async def test_the_preference_is_applied_and_echoed(server: Server, shop: Shop) -> None:
    """wait=N is applied up to 60 seconds; a malformed preference is ignored."""
    live = in_another_process(shop, system_clock)
    open_charge, canceled = await live.charge(), await live.charge()
    await live.charges.cancel(shop.merchant.id, canceled.id)
    async with server.client(shop.key) as client:

        async def ask(charge: Charge, prefer: str) -> tuple[str | None, float]:
            started = time.perf_counter()
            answer = await client.get(f"/charges/{charge.id}", headers={"Prefer": prefer})
            assert answer.status_code == 200
            applied = answer.headers.get("Preference-Applied")
            return applied, time.perf_counter() - started

        waited, capped, ignored = await asyncio.gather(
            ask(open_charge, "wait=1"), ask(canceled, "wait=3600"), ask(open_charge, "wait=soon")
        )
        tag = (await client.get(f"/charges/{open_charge.id}")).headers["ETag"]
        unchanged = await client.get(
            f"/charges/{open_charge.id}", headers={"Prefer": "wait=0", "If-None-Match": tag}
        )

    assert waited[0] == "wait=1"
    assert 1 <= waited[1] < SECONDS_MAX
    assert capped[0] == "wait=60"
    assert ignored[0] is None
    assert max(capped[1], ignored[1]) < SECONDS_MAX
    assert (unchanged.status_code, unchanged.headers["Preference-Applied"]) == (304, "wait=0")
