"""Lists of charges with several filters: long ones are searched in steps, and take turns."""

import asyncio
from itertools import product
from typing import get_args

import msgspec
import pytest
from typing_extensions import override

from ousel.charges import search
from ousel.charges.lifecycle import LIFETIME_MICROS, status_at
from ousel.charges.rules import Charge, ChargeQuery, ChargeTerms, Status
from ousel.charges.search import ChargeSearch
from ousel.charges.transitions import create_charges, new_charge
from ousel.database.port import Result, Work
from ousel.kernel.concurrency import SEARCHES_PER_ACCOUNT_MAX
from ousel.kernel.errors import RateLimited
from tests.support.clock import ManualClock
from tests.support.delegating_database import DelegatingDatabase
from tests.support.shop import Shop

STEP_CHARGES = 5
STATUSES: tuple[Status, ...] = get_args(Status)
REFERENCES = ("order", "refund")


@pytest.fixture
async def charges(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> list[Charge]:
    """Charges of two apps with two references and all statuses, from the newest to the oldest.

    Every fourth `created` charge is overdue. No canceled charge has the reference `order`.
    """
    monkeypatch.setattr(search, "STEP_CHARGES", STEP_CHARGES)
    now, made = shop.clock(), list[Charge]()
    for number, status in enumerate(STATUSES * 16):
        is_open = status == "created" and number % 16
        created_at = now - (number if is_open else 2 * LIFETIME_MICROS + number)
        reference = "refund" if status == "canceled" else REFERENCES[number // 4 % 2]
        charge = new_charge(
            shop.merchant.id,
            ("app_1", "app_2")[number // 8 % 2],
            ChargeTerms(amount=1, reference=reference),
            None,
            ManualClock(created_at),
        )
        ended_at, is_paid = created_at + 1, status == "paid"
        made.append(
            msgspec.structs.replace(
                charge,
                status=status,
                canceled_at=ended_at if status == "canceled" else None,
                paid_at=ended_at if is_paid else None,
                paid_by=shop.payer.id if is_paid else None,
                transfer_id=f"tr_{number}" if is_paid else None,
            )
        )
    await shop.database.write(lambda transaction: create_charges(transaction, made))
    return sorted(made, key=lambda charge: (charge.created_at, charge.id), reverse=True)


def fruitless_query(shop: Shop) -> ChargeQuery:
    """Return a query that matches no charge, although half of them match its reference."""
    return ChargeQuery(account_id=shop.merchant.id, limit=2, reference="order", status="canceled")


class SteppedReads(DelegatingDatabase):
    """Records how many charges each read returns; holds searches from their second read on."""

    def __init__(self, shop: Shop) -> None:
        super().__init__(shop.database)
        self.sizes: list[int] = []
        self.may_go_on = asyncio.Event()
        self._began: set[asyncio.Task[object] | None] = set()

    @override
    async def read(self, work: Work[Result]) -> Result:
        reader = asyncio.current_task()
        if reader in self._began:
            await self.may_go_on.wait()
        self._began.add(reader)
        found = await super().read(work)
        assert isinstance(found, list)
        self.sizes.append(len(found))
        return found


async def test_a_search_finds_the_same_as_a_look_at_all_charges(
    shop: Shop, charges: list[Charge]
) -> None:
    """This is true of all filters, whatever steps contain the matching charges."""
    searching, now = ChargeSearch(shop.database), shop.clock()
    for app_id, status, reference, oldest_first, limit, start in product(
        (None, "app_1"), (None, *STATUSES), (None, *REFERENCES), (False, True), (2, 50), (None, 30)
    ):
        in_order = charges[::-1] if oldest_first else charges
        position = None if start is None else (in_order[start].created_at, in_order[start].id)
        query = ChargeQuery(
            account_id=shop.merchant.id,
            limit=limit,
            oldest_first=oldest_first,
            position=position,
            status=status,
            reference=reference,
            app_id=app_id,
        )
        found = await searching.find(query, now)
        expected = [
            charge.id
            for charge in in_order[0 if start is None else start + 1 :]
            if app_id in {None, charge.app_id}
            and reference in {None, charge.reference}
            and status in {None, status_at(charge, now)}
        ]
        assert [charge.id for charge in found] == expected[: limit + 1], query


async def test_no_step_reads_many_charges(shop: Shop, charges: list[Charge]) -> None:
    """A search that finds nothing reads all charges that match one filter, a few at a time."""
    reads = SteppedReads(shop)
    reads.may_go_on.set()

    assert await ChargeSearch(reads).find(fruitless_query(shop), shop.clock()) == []

    assert max(reads.sizes) == STEP_CHARGES + 1  # one more shows that there are more
    read = sum(min(size, limit) for size, limit in zip(reads.sizes, [2] + [5] * 99, strict=False))
    assert read == sum(charge.reference == "order" for charge in charges)


async def test_other_tasks_run_between_the_steps_of_a_search(
    shop: Shop, charges: list[Charge]
) -> None:
    """On SQLite, where reads never suspend, the event loop still runs other tasks."""
    finding = ChargeSearch(shop.database).find(fruitless_query(shop), shop.clock())
    searching = asyncio.create_task(finding)
    turns = 0
    while not searching.done():
        await asyncio.sleep(0)
        turns += 1
    assert await searching == []
    assert turns > sum(charge.reference == "order" for charge in charges) // STEP_CHARGES


@pytest.mark.usefixtures("charges")
async def test_an_account_has_a_limited_number_of_long_searches(shop: Shop) -> None:
    """One more is refused with a time to wait; a list that an index serves is not."""
    reads = SteppedReads(shop)
    searching, now = ChargeSearch(reads), shop.clock()
    query = fruitless_query(shop)
    short = msgspec.structs.replace(query, status=None)
    count = SEARCHES_PER_ACCOUNT_MAX + 1
    searches = [asyncio.create_task(searching.find(query, now)) for _ in range(count)]

    (refused,), accepted = await asyncio.wait(searches, return_when=asyncio.FIRST_COMPLETED)
    assert len(await searching.find(short, now)) == short.limit + 1
    reads.may_go_on.set()

    with pytest.raises(RateLimited, match="at most 4 long searches at the same time"):
        await refused
    assert await asyncio.gather(*accepted) == [[]] * (count - 1)
