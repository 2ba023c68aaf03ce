"""Payments, cancellations and expiry race for a thousand charges; each has one outcome."""

import asyncio
import contextlib
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import httpx2
import msgspec
import pytest

from ousel.charges.lifecycle import LIFETIME_MICROS
from ousel.charges.rules import Charge, ChargeQuery
from ousel.database.port import Database
from ousel.kernel.clock import MICROS_PER_SECOND, system_clock
from tests.faults.sizes import sized
from tests.support.accounts import balance, person, unique_name, verify
from tests.support.clock import ManualClock
from tests.support.engines import Engine, Engines
from tests.support.server import Server
from tests.support.shop import AMOUNT, Shop, count_proven_payments, open_shop

pytestmark = pytest.mark.slow

ROUNDS = sized(6, 40)
CHARGES_PER_ROUND = 25
ACTIONS = ("pay", "pay", "cancel", "read")
OUTCOMES = ("paid", "canceled", "expired")
PAYERS = 5
NOTHING_WRITTEN = {"database_unavailable", "deadline_exceeded"}  # the machine stood still
OUTCOMES_OF_EACH_MIN = ROUNDS * CHARGES_PER_ROUND // 50


@pytest.fixture
def database_url(engines: Engines, engine: Engine, tmp_path: Path) -> Iterator[str]:
    """A new database, since the servers make it a sandbox, which other tests cannot share."""
    url = engines.fresh_url(engine, tmp_path)
    yield url
    engines.give_back(url)


class RaceAnswer(msgspec.Struct):
    """What one answer said about a charge, and when it was requested and received."""

    action: str
    succeeded: bool
    status: str
    asked_at: float
    answered_at: float


class Race:
    """Sends conflicting requests to several servers close to the time of expiry."""

    def __init__(self, shop: Shop, clients: list[httpx2.AsyncClient], payers: list[str]) -> None:
        self.shop = shop
        self.clients = clients
        self.payers = payers
        self.answers: dict[str, list[RaceAnswer]] = defaultdict(list)
        self.spread_seconds = 0.2

    async def run(self) -> list[Charge]:
        """Pay twice, cancel and read each of a few charges, which expire meanwhile."""
        until_expiry = int(self.spread_seconds * MICROS_PER_SECOND)
        self.shop.clock.now = system_clock() + until_expiry - LIFETIME_MICROS
        charges = await self.shop.many_charges(CHARGES_PER_ROUND)
        await asyncio.gather(
            *(self._act(charge, action) for charge in charges for action in ACTIONS)
        )
        answers = [each for charge in charges for each in self.answers[charge.id]]
        seconds = sum(each.answered_at - each.asked_at for each in answers) / len(answers)
        self.spread_seconds = seconds  # the current speed of this machine
        return charges

    def rarest_outcome_count(self) -> int:
        """Return how many charges have the outcome that is rarest according to their answers."""
        seen = Counter(
            final
            for answers in self.answers.values()
            for final in {each.status for each in answers} - {"created"}
        )
        return min(seen[outcome] for outcome in OUTCOMES)

    async def _act(self, charge: Charge, action: str) -> None:
        # A payment takes more steps than a cancellation, so it starts earlier to win as often.
        earliest = 0.0 if action == "pay" else 0.3
        await asyncio.sleep(self.spread_seconds * random.uniform(earliest, 1.2))
        while True:
            asked_at = time.perf_counter()
            answer = await self._send(charge, action)
            record = answer.json()
            if record.get("code") not in NOTHING_WRITTEN:
                break
        status = record["status"] if answer.status_code == 200 else record.get("charge_status")
        assert status is not None, answer.text
        succeeded = answer.status_code == 200
        answer_in_race = RaceAnswer(action, succeeded, status, asked_at, time.perf_counter())
        self.answers[charge.id].append(answer_in_race)

    async def _send(self, charge: Charge, action: str) -> httpx2.Response:
        client = random.choice(self.clients)
        if action == "pay":
            return await client.post(
                f"/sandbox/charges/{charge.id}/pay", json={"payer": random.choice(self.payers)}
            )
        if action == "cancel":
            return await client.post(f"/charges/{charge.id}/cancel")
        return await client.get(f"/charges/{charge.id}")


def agreed_outcome(answers: list[RaceAnswer], status: str) -> str:
    """Return the one outcome that all answers about a charge agree on."""
    finals = {each.status for each in answers if each.status != "created"} | {status}
    assert finals == {status}
    first_final_at = min(
        (each.answered_at for each in answers if each.status != "created"), default=float("inf")
    )
    assert all(each.asked_at < first_final_at for each in answers if each.status == "created")
    done = Counter(each.action for each in answers if each.succeeded)
    assert done["pay"] == (status == "paid")
    assert done["cancel"] == (status == "canceled")
    return status


async def test_each_charge_has_exactly_one_outcome(
    database: Database, database_url: str, engine: Engine
) -> None:
    """All answers agree about it, and money moved if and only if the charge is paid."""
    processes = 1 if engine == "sqlite" else 3
    shop = await open_shop(database, ManualClock(), kind="test")
    payers = [await person(database, unique_name("payer"), "1000000") for _ in range(PAYERS)]
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(Server(database_url, "--sandbox")) for _ in range(processes)]
        async with contextlib.AsyncExitStack() as clients:
            race = Race(
                shop,
                [await clients.enter_async_context(each.client(shop.key)) for each in servers],
                [f"@{payer.username}" for payer in payers],
            )
            charges = [charge for _ in range(ROUNDS) for charge in await race.run()]
            # How often each one wins is up to chance and to the speed of this machine.
            while race.rarest_outcome_count() < OUTCOMES_OF_EACH_MIN:
                charges += await race.run()
        shop.clock.now = system_clock()
        query = ChargeQuery(account_id=shop.merchant.id, limit=len(charges))
        finals = {charge.id: charge.status for charge in await shop.charges.list_charges(query)}

    outcomes = Counter(
        agreed_outcome(race.answers[charge_id], status) for charge_id, status in finals.items()
    )
    sys.stdout.write(f"\n{engine}, {processes} processes: {dict(outcomes)}\n")
    assert set(finals) == {charge.id for charge in charges}
    assert set(outcomes) == set(OUTCOMES)
    assert min(outcomes.values()) >= OUTCOMES_OF_EACH_MIN
    assert await balance(database, shop.merchant) == outcomes["paid"] * AMOUNT
    remaining = [await balance(database, payer) for payer in payers]
    assert sum(remaining) == PAYERS * 1_000_000 * MICROS_PER_SECOND - outcomes["paid"] * AMOUNT
    assert await count_proven_payments(database_url) == outcomes["paid"]
    await verify(database)
