"""What all clients can do: call a process, call again, wait a little."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random

import msgspec

from tests.simulation.checker import Checker
from tests.simulation.network import Handler, Network, Process, Reply
from tests.simulation.population import PartnerApp, Person


class Surroundings(msgspec.Struct, kw_only=True):
    """What all clients of one simulation share."""

    everybody: Sequence[Person]
    partners: Sequence[PartnerApp]
    network: Network
    checker: Checker
    processes: Sequence[Process]  # changes when a process is restarted
    now: Callable[[], float]
    requests: int
    pace: float  # requests per second that each client is to send


class Caller:
    """Somebody who calls, with chance of its own."""

    def __init__(self, name: str, random: Random, around: Surroundings) -> None:
        self.name = name
        self.random = random
        self.around = around
        self.checker = around.checker
        self.count = 0
        self.burst_max = random.choice([1, 8, 24, 48])
        self.pause_seconds = 0.8 * self.burst_max / around.pace

    async def until_known(self, name: str, handler: Handler, attempts: int) -> Reply:
        """Call until the outcome is known, at most so many times."""
        reply = await self.call(name, handler)
        while reply.is_unknown and attempts > 1:
            await self.back_off()
            attempts -= 1
            reply = await self.call(name, handler)
        return reply

    async def call(
        self, name: str, handler: Handler, patience_seconds: float | None = None
    ) -> Reply:
        process = self.random.choice(self.around.processes)
        patience = patience_seconds or self.random.choice([0.02, 2.0, 10.0, 35.0])
        reply = await self.around.network.call(process, f"{self.name}: {name}", handler, patience)
        if reply.kind == "failure":
            self.checker.fail(f"{name} was answered with 500: {reply.value!r}")
        return reply

    async def back_off(self) -> None:
        """Wait before the next attempt."""
        await asyncio.sleep(self.random.choice([0.001, 0.2, 2.0]) * self.random.random())

    def new_name(self) -> str:
        self.count += 1
        return f"{self.name}-{self.count}"

    def partner(self) -> PartnerApp:
        return self.random.choice(self.around.partners)

    def person(self, other_than: Person | None = None) -> Person:
        person = self.random.choice(self.around.everybody)
        while person == other_than:
            person = self.random.choice(self.around.everybody)
        return person
