"""Clients that send transfers, use charges, read balances and look keys up.

They write down every answer.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count, pairwise
from typing import Any

import httpx2
import msgspec

from ousel.database.addresses import open_database
from ousel.database.port import Database
from ousel.kernel.clock import system_clock
from ousel.kernel.ids import new_secret, secret_hash
from ousel.kernel.money import MICROS_PER_UNIT
from ousel.people.rules import Session
from ousel.people.store import add_session
from ousel.site.forms import form_token
from tests.faults.histories.history import Action, Entry, Group, Operation, Outcome
from tests.support.accounts import partner
from tests.support.raw_sql import RawSql
from tests.support.server import Server

CLIENTS = 3  # of each group
OPENING = 1_000
AMOUNT_MAX = 400
PAUSE_SECONDS = 0.1
SENT_AGAIN = 0.1  # so many answered transfers are sent again, perhaps to another server
ACKNOWLEDGED_SECONDS_MAX = 240.0
PAID = "paid"  # stands for the id of a payment's transfer, which the payer is not told
NOTHING_WRITTEN = {"database_unavailable", "deadline_exceeded", "queue_full"}

ENTRIES = """
    SELECT transfer_id, COALESCE(charge_id, note), amount, balance_after FROM entries
    WHERE account_id = ? AND sequence > 1 ORDER BY sequence
"""


class Member(msgspec.Struct, frozen=True):
    """An account of a group, with its key and a session of its owner."""

    name: str
    account_id: str
    key: str
    session: str

    @property
    def authorization(self) -> dict[str, str]:
        """The headers of a request with the key."""
        return {"Authorization": f"Bearer {self.key}"}


class Clients:
    """Groups of two accounts each, and the clients that use them.

    A history that is too long takes too long to check, so clients may go on to other groups.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        seed: int,
        *,
        pause_seconds_max: float = 0.1,
        answer_seconds_max: float = 20.0,
    ) -> None:
        """Pause between requests, and hang up if an answer takes too long."""
        self._servers = servers
        self._seed = seed
        self._pause_seconds_max = pause_seconds_max
        self._answer_seconds_max = answer_seconds_max
        self._groups: list[list[Member]] = []
        self._operations: list[Operation] = []
        self._keys: list[list[tuple[Member, str]]] = []  # sent by each group
        self._charges: list[list[tuple[Member, str, int]]] = []  # of each group, with the amounts
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
                self._groups.append([await _open_account(database, name) for name in names])
                self._keys.append([])
                self._charges.append([])

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
                self._history(
                    number,
                    {
                        member.name: [
                            Entry(*row) for row in await raw_sql.run(ENTRIES, member.account_id)
                        ]
                        for member in members
                    },
                )
                for number, members in enumerate(self._groups)
            ]

    def _history(self, number: int, entries: dict[str, list[Entry]]) -> Group:
        written = {each.intent: each.transfer_id for own in entries.values() for each in own}
        return Group(
            number=number,
            operations=[
                msgspec.structs.replace(each, result=written.get(each.intent, PAID))
                if each.action == "transfer" and each.result == PAID
                else each
                for each in self._operations
                if each.group == number
            ],
            opening=dict.fromkeys(entries, OPENING * MICROS_PER_UNIT),
            entries=entries,
        )

    async def _look_up_unknown(self) -> None:
        """Ask what became of each key whose transfer was never answered."""
        unknown = {each.intent for each in self._operations if each.outcome == "unknown"}
        unknown -= {each.intent for each in self._operations if each.result is not None}
        async with self._caller() as http:
            for group, keys in enumerate(self._keys):
                for sender, intent in keys:
                    if intent in unknown:
                        await self._look_up(http, group, sender, intent, random.Random(intent))

    async def _work(self, place: int, client: int) -> None:
        dice = random.Random(f"{self._seed}/{place}/{client}")
        async with self._caller() as http:
            for turn in count():
                if self._stopping:
                    return
                group = self._first + place
                account = dice.choice(self._groups[group])
                chosen = dice.random()
                if chosen < 0.4:
                    await self._transfer(http, group, account, f"{group}-{client}-{turn}", dice)
                elif chosen < 0.6:
                    await self._use_charge(http, group, account, dice)
                elif chosen < 0.85 or not self._keys[group]:
                    await self._balance(http, group, account, dice)
                else:
                    await self._look_up(http, group, *dice.choice(self._keys[group]), dice)
                await asyncio.sleep(dice.uniform(0, self._pause_seconds_max))

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
                http.post(self._url(dice, "/transfers"), json=body, headers=sender.authorization),
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
            await asyncio.sleep(PAUSE_SECONDS)

    async def _use_charge(
        self, http: httpx2.AsyncClient, group: int, account: Member, dice: random.Random
    ) -> None:
        """Create a charge, or read, cancel or pay one that an earlier turn has created."""
        charges = self._charges[group]
        if not charges or dice.random() < 0.2:
            await self._create_charge(http, group, account, dice)
            return
        owner, charge_id, amount = dice.choice(charges)
        url = self._url(dice, f"/charges/{charge_id}")
        match dice.choice(("read", "read", "pay", "cancel")):
            case "read":
                call = http.get(url, headers=owner.authorization)
            case "cancel":
                call = http.post(f"{url}/cancel", headers=owner.authorization)
            case _:
                await self._pay(http, group, owner, charge_id, amount, dice)
                return
        await self._ask("charge", call, group=group, account=owner.name, intent=charge_id)

    async def _create_charge(
        self, http: httpx2.AsyncClient, group: int, owner: Member, dice: random.Random
    ) -> None:
        amount = dice.randint(1, AMOUNT_MAX)
        with suppress(httpx2.TransportError):
            created = await http.post(
                self._url(dice, "/charges"), json={"amount": amount}, headers=owner.authorization
            )
            if created.is_success:
                self._charges[group].append((owner, created.json()["id"], amount))

    async def _pay(
        self,
        http: httpx2.AsyncClient,
        group: int,
        owner: Member,
        charge_id: str,
        amount: int,
        dice: random.Random,
    ) -> None:
        """Pay another's charge on the checkout page; it can move money once, like a transfer."""
        payer = next(each for each in self._groups[group] if each is not owner)
        call = http.post(
            f"{dice.choice(self._servers).origin}/pay/{charge_id}",
            data={"form_token": form_token(payer.session)},
            headers={"Cookie": f"ousel_session={payer.session}"},
        )
        operation = await self._ask(
            "transfer",
            call,
            group=group,
            account=payer.name,
            recipient=owner.name,
            intent=charge_id,
            amount=amount * MICROS_PER_UNIT,
        )
        if operation.result is not None:
            self._operations.append(
                msgspec.structs.replace(operation, action="charge", result="paid")
            )

    async def _balance(
        self, http: httpx2.AsyncClient, group: int, reader: Member, dice: random.Random
    ) -> None:
        call = http.get(self._url(dice, "/balance"), headers=reader.authorization)
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
        call = http.get(url, headers=sender.authorization)
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
        if "location" in answer.headers or "text/html" in answer.headers["content-type"]:
            return self._read_page(answer)
        body = answer.json()
        if answer.is_success:
            return "ok", _result(action, body)
        if body["code"] == "insufficient_balance":
            return "ok", None
        if body["code"] == "charge_not_cancelable":
            return "fail", None
        self.codes[body["code"]] += 1
        if "retry-after" not in answer.headers:
            self.unexpected.append(f"no Retry-After: {answer.text}")
        if body["code"] in NOTHING_WRITTEN:
            return "fail", None
        if body["code"] != "outcome_unknown":
            self.unexpected.append(answer.text)
        return "unknown", None

    def _read_page(self, answer: httpx2.Response) -> tuple[Outcome, str | None]:
        """Read the answer of the checkout: a payment leads to its receipt."""
        location = answer.headers.get("location", "/pay/")
        if not location.startswith("/pay/"):
            self.unexpected.append(f"the payer was sent to {location}")
        if "/receipt" in location:
            return "ok", PAID
        return ("unknown" if answer.is_server_error else "fail"), None

    def _caller(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(timeout=self._answer_seconds_max, verify=False)

    def _url(self, dice: random.Random, path: str) -> str:
        return f"{dice.choice(self._servers).base_url}{path}"


def _result(action: Action, body: Any) -> str | int | None:
    match action:
        case "charge":
            return str(body["status"])
        case "balance":
            return round(float(body["available"]) * MICROS_PER_UNIT)
        case "lookup":
            return str(body["data"][0]["id"]) if body["data"] else None
        case "transfer":
            return str(body["id"])


async def _open_account(database: Database, name: str) -> Member:
    """Open and fund an account whose owner is signed in."""
    opened = await partner(database, name, str(OPENING))
    secret = new_secret("os_")
    now = system_clock()
    session = Session(
        secret_hash(secret), opened.account.id, "signed_in", now, now, 2**60, "::1", "", now
    )
    await database.write(lambda transaction: add_session(transaction, session))
    return Member(name, opened.account.id, opened.key, secret)
