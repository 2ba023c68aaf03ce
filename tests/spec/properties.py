"""What must hold in every state of the model, and in every state that nothing follows."""

from collections import Counter

from ousel.ledger.rules import SYSTEM_ACCOUNT_ID
from tests.spec.world import Process, Request, Scenario, World


class Properties:
    """The properties of posting in one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario

    def violation(self, world: World) -> str | None:
        """Return which property does not hold in this state, or None."""
        return (
            self._wrong_sum(world)
            or self._overdrawn(world)
            or self._unbalanced(world)
            or self._moved_twice(world)
            or self._answered_wrongly(world)
        )

    def deadlock(self, world: World) -> str | None:
        """Return who waits forever in a state that nothing follows, or None."""
        for process in world.processes:
            if process != Process():
                return "processes wait for each other forever"
        for number, client in enumerate(world.clients, 1):
            if client.status not in {"answered", "in_doubt"}:
                return f"client {number} is never answered"
        return None

    def moved_though_refused(self, world: World) -> str | None:
        """Return which client was refused though an earlier attempt of it moved money, or None."""
        moved = {movement.request.intent for movement in world.journal}
        for number, client in enumerate(world.clients):
            if client.status == "answered" and client.answer is None and number in moved:
                return f"client {number + 1} is refused, but an earlier attempt of it moved money"
        return None

    def _wrong_sum(self, world: World) -> str | None:
        total = sum(account.balance for _, account in world.accounts)
        return f"the balances add up to {total}" if total else None

    def _overdrawn(self, world: World) -> str | None:
        for name, account in world.accounts:
            if account.balance < 0 and name != SYSTEM_ACCOUNT_ID:
                return f"{name} is overdrawn"
        return None

    def _unbalanced(self, world: World) -> str | None:
        """Compare each balance with the movements, as `ousel verify` does."""
        expected = {name: account.balance for name, account in self._scenario.accounts.items()}
        for movement in world.journal:
            intent = self._scenario.intents[movement.request.intent]
            expected[intent.debit] -= intent.amount
            expected[intent.credit] += intent.amount
        for name, account in world.accounts:
            if account.balance != expected[name]:
                return f"the balance of {name} is not what its entries add up to"
        return None

    def _moved_twice(self, world: World) -> str | None:
        times = Counter(self._movable_once(movement.request) for movement in world.journal)
        for what, count in times.items():
            if count > 1:
                return f"{what} moved money {count} times"
        return None

    def _movable_once(self, request: Request) -> str:
        """Return what may move money at most once: a key or, without one, a request."""
        intent = self._scenario.intents[request.intent]
        return request.transfer_id if intent.key is None else f"key {intent.key}"

    def _answered_wrongly(self, world: World) -> str | None:
        durable = {movement.request for movement in world.journal}
        for number, client in enumerate(world.clients):
            if client.status != "answered":
                continue
            if client.answer is not None and client.answer not in durable:
                return f"client {number + 1} got a movement as its answer that is not on disk"
            if client.answer is None and Request(number, client.attempt) in durable:
                return f"client {number + 1} is refused, but its request moved money"
        return None
