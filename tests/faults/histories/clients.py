"""Clients that send transfers, read balances, look keys up, and write down every answer."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count, pairwise
from typing import Any

import httpx2

from ousel.kernel.money import MICROS_PER_UNIT
from tests.faults.histories.history import Action, Entry, Group, Operation, Outcome
from tests.support.accounts import open_database, partner
from tests.support.raw_sql import RawSql
from tests.support.server import Server

CLIENTS = 3  # of each group
OPENING = 1_000
AMOUNT_MAX = 400
PAUSE_SECONDS_MAX = 0.1
SENT_AGAIN = 0.1  # so many answered transfers are sent again, perhaps to another server
ACKNOWLEDGED_SECONDS_MAX = 120.0
ANSWER_SECONDS_MAX = 20.0  # the client hangs up then
NOTHING_WRITTEN = {"database_unavailable", "deadline_exceeded", "queue_full"}

ENTRIES = """
    SELECT transfer_id, COALESCE(charge_id, note), amount, balance_after FROM entries
    WHERE account_id = ? AND sequence > 1 ORDER BY sequence
"""


class Member:
    """An account of a group, with its key."""

    def __init__(self, name: str, account_id: str, key: str) -> None:
        self.name = name
        self.account_id = account_id
        self.key = key


class Clients:
    """Groups of two accounts each, and the clients that use them.

    A history that is too long takes too long to check, so clients may go on to other groups.
    """

    def __init__(self, servers: Sequence[Server], seed: int) -> None:
        self._servers = servers
        self._seed = seed
        self._groups: list[list[Member]] = []
        self._operations: list[Operation] = []
        self._keys: list[list[tuple[Member, str]]] = []  # sent by each group
        self._first = 0  # the first of the groups in use
        self._used_at_once = 0
        self._stopping = False
        self._news = asyncio.Event()
        self.acknowledgements: list[float] = []  # when a transfer was acknowledged
        self.codes: Counter[str] = Counter()  # of refusals
        self.unexpected: list[str] = []

    async def open_accounts(self, url: str, groups: int, times: int = 1) -> None:
        """Create and fund the accounts of the groups that are used first, and of those later."""
        self._used_at_once = groups
        async with open_database(url) as database:
            for number in range(groups * times):
                names = (f"left{number}", f"right{number}")
                opened = [await partner(database, name, str(OPENING)) for name in names]
                self._groups.append(
                    [
                        Member(name, new.account.id, new.key)
                        for name, new in zip(names, opened, strict=True)
                    ]
                )
                self._keys.append([])

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send during a block."""
        async with asyncio.TaskGroup() as tasks:
            for group in range(self._used_at_once):
                for client in range(CLIENTS):
                    tasks.create_task(self._work(group, client))
            yield
            self._stopping = True
        await self._look_up_unknown()

    def use_next_groups(self) -> None:
        """Leave the groups in use for the next ones, if there are any."""
        after = self._first + self._used_at_once
        if after < len(self._groups):
            self._first = after

    async def further(self, transfers: int) -> None:
        """Return when so many more transfers have been acknowledged."""
        wanted = len(self.acknowledgements) + transfers
        async with asyncio.timeout(ACKNOWLEDGED_SECONDS_MAX):
            while len(self.acknowledgements) < wanted:
                self._news.clear()
                await self._news.wait()

    def longest_gap_seconds(self, since: float) -> float:
        """Return the longest time without an acknowledged transfer since that moment."""
        later = [since, *(moment for moment in self.acknowledgements if moment > since)]
        return max((after - before for before, after in pairwise(later)), default=0.0)

    async def histories(self, url: str) -> list[Group]:
        """Return what happened, with the ledger's entries."""
        async with RawSql(url) as raw_sql:
            return [
                Group(
                    number=number,
                    operations=[each for each in self._operations if each.group == number],
                    opening=dict.fromkeys(
                        (member.name for member in members), OPENING * MICROS_PER_UNIT
                    ),
                    entries={
                        member.name: [
                            Entry(*row) for row in await raw_sql.run(ENTRIES, member.account_id)
                        ]
                        for member in members
                    },
                )
                for number, members in enumerate(self._groups)
            ]

    async def _look_up_unknown(self) -> None:
        """Ask what became of each key whose transfer was never answered."""
        unknown = {each.intent for each in self._operations if each.outcome == "unknown"}
        unknown -= {each.intent for each in self._operations if each.result is not None}
        async with httpx2.AsyncClient(timeout=ANSWER_SECONDS_MAX, verify=False) as http:
            for group, keys in enumerate(self._keys):
                for sender, intent in keys:
                    if intent in unknown:
                        await self._look_up(http, group, sender, intent, random.Random(intent))

    async def _work(self, place: int, client: int) -> None:
        dice = random.Random(f"{self._seed}/{place}/{client}")
        async with httpx2.AsyncClient(timeout=ANSWER_SECONDS_MAX, verify=False) as http:
            for turn in count():
                if self._stopping:
                    return
                group = self._first + place
                account = dice.choice(self._groups[group])
                chosen = dice.random()
                if chosen < 0.5:
                    await self._transfer(http, group, account, f"{group}-{client}-{turn}", dice)
                elif chosen < 0.8 or not self._keys[group]:
                    await self._balance(http, group, account, dice)
                else:
                    await self._look_up(http, group, *dice.choice(self._keys[group]), dice)
                await asyncio.sleep(dice.uniform(0, PAUSE_SECONDS_MAX))

    async def _transfer(
        self, http: httpx2.AsyncClient, group: int, sender: Member, intent: str, dice: random.Random
    ) -> None:
        """Send a transfer, and while its outcome is unknown send it again with its key."""
        amount = dice.randint(1, AMOUNT_MAX)
        keyed = dice.random() < 0.7
        recipient = next(each for each in self._groups[group] if each is not sender)
        body = {"to": f"@{recipient.name}", "amount": amount, "note": intent}
        if keyed:
            body["idempotency_key"] = intent
            self._keys[group].append((sender, intent))
        for _ in range(dice.choice((1, 2, 3)) if keyed else 1):
            operation = await self._ask(
                "transfer",
                http.post(self._url(dice, "/transfers"), json=body, headers=_authorized(sender)),
                group=group,
                account=sender.name,
                recipient=recipient.name,
                intent=intent,
                amount=amount * MICROS_PER_UNIT,
            )
            if operation.result is not None:
                self.acknowledgements.append(operation.returned)
                self._news.set()
            if operation.outcome == "ok" and dice.random() >= SENT_AGAIN:
                return
            await asyncio.sleep(PAUSE_SECONDS_MAX)

    async def _balance(
        self, http: httpx2.AsyncClient, group: int, reader: Member, dice: random.Random
    ) -> None:
        call = http.get(self._url(dice, "/balance"), headers=_authorized(reader))
        await self._ask("balance", call, group=group, account=reader.name)

    async def _look_up(
        self,
        http: httpx2.AsyncClient,
        group: int,
        sender: Member,
        intent: str,
        dice: random.Random,
    ) -> None:
        url = self._url(dice, f"/transfers?idempotency_key={intent}")
        call = http.get(url, headers=_authorized(sender))
        await self._ask("lookup", call, group=group, account=sender.name, intent=intent)

    async def _ask(self, action: Action, call: Any, **fields: Any) -> Operation:
        invoked = time.monotonic()
        outcome: Outcome = "unknown"
        result: str | int | None = None
        try:
            answer: httpx2.Response = await call
        except httpx2.ConnectError:
            outcome = "fail"
            self.codes["connection refused"] += 1
        except httpx2.TransportError as error:
            self.codes[type(error).__name__] += 1
        else:
            outcome, result = self._read(action, answer)
        operation = Operation(
            action=action,
            invoked=invoked,
            returned=time.monotonic(),
            outcome=outcome,
            result=result,
            **fields,
        )
        self._operations.append(operation)
        return operation

    def _read(self, action: Action, answer: httpx2.Response) -> tuple[Outcome, str | int | None]:
        body = answer.json()
        if answer.is_success:
            if action == "balance":
                return "ok", round(float(body["available"]) * MICROS_PER_UNIT)
            if action == "lookup":
                return "ok", body["data"][0]["id"] if body["data"] else None
            return "ok", body["id"]
        if body["code"] == "insufficient_balance":
            return "ok", None
        self.codes[body["code"]] += 1
        if "retry-after" not in answer.headers:
            self.unexpected.append(f"no Retry-After: {answer.text}")
        if body["code"] in NOTHING_WRITTEN:
            return "fail", None
        if body["code"] != "outcome_unknown":
            self.unexpected.append(answer.text)
        return "unknown", None

    def _url(self, dice: random.Random, path: str) -> str:
        return f"{dice.choice(self._servers).base_url}{path}"


def _authorized(member: Member) -> dict[str, str]:
    return {"Authorization": f"Bearer {member.key}"}
