"""What must hold in every state of the model, and how an end must look."""

from collections import Counter

from ousel.ledger.rules import SYSTEM_ACCOUNT_ID
from tests.spec.world import Process, Request, Setting, World


class Properties:
    """The properties of posting in one setting."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting

    def broken(self, world: World) -> str | None:
        """Say which property does not hold in this state."""
        return (
            self._wrong_sum(world)
            or self._overdrawn(world)
            or self._unbalanced(world)
            or self._moved_twice(world)
            or self._told_wrongly(world)
        )

    def stuck(self, world: World) -> str | None:
        """Say who waits for ever in a state that nothing follows."""
        for process in world.processes:
            if process != Process():
                return "processes wait for each other for ever"
        for number, client in enumerate(world.clients, 1):
            if client.mood not in {"told", "doubts"}:
                return f"client {number} is never told"
        return None

    def moved_though_refused(self, world: World) -> str | None:
        """Say which client was refused at last, while an earlier attempt of it moved money."""
        moved = {movement.request.intent for movement in world.journal}
        for number, client in enumerate(world.clients):
            if client.mood == "told" and client.told is None and number in moved:
                return f"client {number + 1} is refused, and an earlier attempt of it moved money"
        return None

    def _wrong_sum(self, world: World) -> str | None:
        total = sum(head.balance for _, head in world.heads)
        return f"the balances add up to {total}" if total else None

    def _overdrawn(self, world: World) -> str | None:
        for name, head in world.heads:
            if head.balance < 0 and name != SYSTEM_ACCOUNT_ID:
                return f"{name} is overdrawn"
        return None

    def _unbalanced(self, world: World) -> str | None:
        """Compare each balance with the movements, as `ousel verify` does."""
        expected = {name: head.balance for name, head in self._setting.accounts.items()}
        for movement in world.journal:
            intent = self._setting.intents[movement.request.intent]
            expected[intent.debit] -= intent.amount
            expected[intent.credit] += intent.amount
        for name, head in world.heads:
            if head.balance != expected[name]:
                return f"the balance of {name} is not what its entries add up to"
        return None

    def _moved_twice(self, world: World) -> str | None:
        times = Counter(self._once(movement.request) for movement in world.journal)
        for wish, count in times.items():
            if count > 1:
                return f"{wish} moved money {count} times"
        return None

    def _once(self, request: Request) -> str:
        """Name what may move money at most once: a key, or where there is none a request."""
        intent = self._setting.intents[request.intent]
        return request.transfer_id if intent.key is None else f"key {intent.key}"

    def _told_wrongly(self, world: World) -> str | None:
        durable = {movement.request for movement in world.journal}
        for number, client in enumerate(world.clients):
            if client.mood != "told":
                continue
            if client.told is not None and client.told not in durable:
                return f"client {number + 1} is told of a movement that is not on disk"
            if client.told is None and Request(number, client.attempt) in durable:
                return f"client {number + 1} is refused what has moved"
        return None
