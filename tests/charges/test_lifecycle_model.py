"""Charges against a model: after any steps in any order, both agree."""

import asyncio
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)
from typing_extensions import override

from ousel.charges.lifecycle import LIFETIME_MICROS
from ousel.charges.rules import ChargeQuery
from ousel.database.addresses import database_at
from ousel.kernel.errors import Refusal
from tests.faults.sizes import sized
from tests.support.accounts import verify
from tests.support.clock import ManualClock
from tests.support.engines import IS_CHECK
from tests.support.shop import Shop, count_proven_payments, open_shop

if TYPE_CHECKING:
    from ousel.charges.rules import Charge

FUNDS = 100_000_000
STEPS_MICROS = (1, 1_000, LIFETIME_MICROS // 2, LIFETIME_MICROS - 1, LIFETIME_MICROS)


class ChargeModel(RuleBasedStateMachine):
    """One shop, its charges, and the status that each must have."""

    charges: Bundle[str] = Bundle("charges")
    database_url: str

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.shop: Shop = self.runner.run(self._open())
        self.created: dict[str, Charge] = {}
        self.status: dict[str, str] = {}
        self.final_since: dict[str, int] = {}  # only of charges that are paid or canceled
        self.paid = 0

    async def _open(self) -> Shop:
        database = database_at(self.database_url)
        await database.open()
        return await open_shop(database, ManualClock())

    @override
    def teardown(self) -> None:
        self.runner.run(verify(self.shop.database))
        self.runner.run(count_proven_payments(self.database_url))
        self.runner.run(self.shop.database.close())
        self.runner.close()

    def expected(self, charge_id: str) -> str:
        """Return the status that the charge must have now."""
        status = self.status[charge_id]
        is_past_expiry = self.shop.clock() >= self.created[charge_id].expires_at
        return "expired" if status == "created" and is_past_expiry else status

    def changed_at(self, charge_id: str) -> int:
        """Return when the charge got its final status, or 0 if it has none."""
        if self.expected(charge_id) == "expired":
            return self.created[charge_id].expires_at
        return self.final_since.get(charge_id, 0)

    def result_of(self, action: Any) -> str:
        """Run an action; return "done" or the code of its refusal."""
        try:
            self.runner.run(action)
        except Refusal as refusal:
            return refusal.code
        return "done"

    @rule(target=charges, amount=st.sampled_from([1, 2_500_000, 60_000_000, 100_000_001]))
    def create(self, amount: int) -> str:
        charge = self.runner.run(self.shop.charge(amount=amount))
        self.created[charge.id] = charge
        self.status[charge.id] = "created"
        return charge.id

    @rule(charge_id=charges)
    def pay(self, charge_id: str) -> None:
        charge = self.created[charge_id]
        if self.expected(charge_id) != "created":
            wanted = "charge_not_payable"
        elif charge.amount > FUNDS - self.paid:
            wanted = "insufficient_balance"
        else:
            wanted = "done"
            self.status[charge_id] = "paid"
            self.final_since[charge_id] = self.shop.clock()
            self.paid += charge.amount
        assert self.result_of(self.shop.pay(charge)) == wanted

    @rule(charge_id=charges)
    def pay_own(self, charge_id: str) -> None:
        payment = self.shop.charges.pay(self.created[charge_id], self.shop.merchant.id)
        assert self.result_of(payment) == "own_charge"

    @rule(charge_id=charges)
    def cancel(self, charge_id: str) -> None:
        wanted = "charge_not_cancelable"
        if self.expected(charge_id) == "created":
            wanted = "done"
            self.status[charge_id] = "canceled"
            self.final_since[charge_id] = self.shop.clock()
        cancellation = self.shop.charges.cancel(self.shop.merchant.id, charge_id)
        assert self.result_of(cancellation) == wanted

    @rule(micros=st.sampled_from(STEPS_MICROS))
    def wait(self, micros: int) -> None:
        self.shop.clock.advance(micros=micros)

    @rule(charge_id=charges)
    def read(self, charge_id: str) -> None:
        assert self.runner.run(self.shop.status(self.created[charge_id])) == self.expected(
            charge_id
        )

    @rule(
        status=st.sampled_from(["created", "paid", "canceled", "expired", None]),
        oldest_first=st.booleans(),
        micros_ago=st.none() | st.sampled_from([0, *STEPS_MICROS]),
    )
    def list(self, *, status: Any, oldest_first: bool, micros_ago: int | None) -> None:
        changed_after = None if micros_ago is None else self.shop.clock() - micros_ago
        query = ChargeQuery(
            account_id=self.shop.merchant.id,
            limit=100,
            status=status,
            oldest_first=oldest_first,
            status_changed_after=changed_after,
        )
        page = self.runner.run(self.shop.charges.list_charges(query))
        wanted = [
            charge
            for charge in self.created.values()
            if status in {None, self.expected(charge.id)}
            and (changed_after is None or self.changed_at(charge.id) > changed_after)
        ]
        wanted.sort(key=lambda each: (each.created_at, each.id), reverse=not oldest_first)
        assert [(each.id, each.status) for each in page] == [
            (each.id, self.expected(each.id)) for each in wanted
        ]

    @invariant()
    def money_moved_if_and_only_if_paid(self) -> None:
        assert self.runner.run(self.shop.balances()) == (self.paid, FUNDS - self.paid)


def test_charges_follow_the_model(database_url: str) -> None:
    """Creation, payment, cancellation, time and reads in any order agree with the model."""
    model = type("ModelOnDatabase", (ChargeModel,), {"database_url": database_url})
    examples, steps = (8, 25) if IS_CHECK else (sized(15, 40), 50)
    limits = settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    run_state_machine_as_test(model, settings=limits)
