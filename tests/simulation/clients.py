"""Clients: they send, retry, give up, look up keys, pay and cancel charges, connect accounts."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from ousel.app.services import Services
from ousel.charges.rules import Charge, ChargeTerms
from ousel.kernel.ids import handle_of
from ousel.ledger.funding import fund_through
from ousel.ledger.history import HistoryQuery
from ousel.ledger.rules import ChargeClosed, KeyRejected, Refused
from ousel.oauth.rules import Exchange
from ousel.people.audit import EventSource
from ousel.transfers.posting import transfer_posting
from tests.simulation.callers import Caller
from tests.simulation.checker import BOUND_SECONDS
from tests.simulation.network import Handler
from tests.simulation.population import REDIRECT_URI, PartnerApp, Person

MICROS = 1_000_000
LIFETIME_SECONDS = 2 * 3600
_SOURCE = EventSource(ip_address="", device="")


class Client(Caller):
    """Somebody who asks for many things, often for several at once."""

    async def run(self) -> None:
        """Ask until enough was asked."""
        waiting: list[asyncio.Task[None]] = []
        loop, random = asyncio.get_running_loop(), self.random
        while self.around.network.request_count < self.around.requests:
            burst = random.randint(1, self.burst_max)
            waiting += [loop.create_task(self._act()) for _ in range(burst)]
            await asyncio.sleep(random.expovariate(1 / self.pause_seconds))
            if len(waiting) > 100:
                await asyncio.wait(waiting[:50], timeout=5.0)
                waiting = [task for task in waiting if not task.done()]
        await asyncio.gather(*waiting)

    async def _act(self) -> None:
        drawn = self.random.random()
        for share, act in _ACTS:
            drawn -= share
            if drawn < 0:
                await act(self)
                return

    # Transfers

    async def transfer_with_key(self) -> None:
        """Send until there is an answer; if there is none, find out by the key."""
        partner, key = self.partner(), self.new_name()
        handler = self._transfer(partner, key)
        last_used_at = 0.0
        for _ in range(self.random.choice([1, 1, 2, 3, 5])):
            last_used_at = self.around.now()
            reply = await self.call(f"transfer {key}", handler)
            if not reply.is_unknown:
                if self.random.random() < 0.1:
                    await self._look_up(partner, key, last_used_at)
                return
            await self.back_off()
        if self.random.random() < 0.3:
            await self._look_up(partner, key, last_used_at)
        await asyncio.sleep(last_used_at + BOUND_SECONDS - self.around.now() + 0.001)
        while not await self._look_up(partner, key, last_used_at):  # noqa: ASYNC110 - no real time
            await asyncio.sleep(self.random.uniform(1.0, 5.0))

    async def transfer_without_key(self) -> None:
        """Send once."""
        await self.call(f"transfer {self.new_name()}", self._transfer(self.partner(), None))

    async def transfer_twice_at_once(self) -> None:
        """Send the same request to two processes at the same time."""
        key = self.new_name()
        handler = self._transfer(self.partner(), key)
        await asyncio.gather(*(self.call(f"transfer {key}", handler) for _ in range(2)))

    async def fund(self) -> None:
        """Issue money to somebody, as the operator does."""
        person, key = self.person(), self.new_name()

        async def handler(services: Services) -> object:
            account = await services.accounts.get(person.account_id)
            return await fund_through(
                services.posting_queue,
                services.clock,
                account,
                50 * MICROS,
                idempotency_key=key,
            )

        await self.until_known(f"fund {person.username}", handler, attempts=2)

    async def read_balance(self) -> None:
        """Read a balance."""
        person, asked_at = self.person(), self.around.now()

        async def handler(services: Services) -> None:
            account = await services.accounts.get(person.account_id)
            self.checker.balance_read(person.account_id, account.balance, asked_at)

        await self.call(f"balance {person.username}", handler)

    def _transfer(self, partner: PartnerApp, key: str | None) -> Handler:
        to = f"@{self.person(other_than=partner.person).username}"
        amount = self.random.choice([1, 5, 20, 90]) * MICROS
        note = None if self.random.random() < 0.5 else "a note"

        async def handler(services: Services) -> object:
            posting = transfer_posting(partner.key_check, to, amount, note, key, services.clock)
            result = await services.posting_queue.post(posting)
            if isinstance(result.outcome, Refused):
                raise result.outcome.refusal
            assert not isinstance(result.outcome, KeyRejected | ChargeClosed), result.outcome
            return result

        return handler

    async def _look_up(self, partner: PartnerApp, key: str, last_used_at: float) -> bool:
        """Return whether the key could be looked up; the checker judges what was found."""
        account_id, asked_at = partner.person.account_id, self.around.now()

        async def handler(services: Services) -> None:
            query = HistoryQuery(account_id=account_id, limit=1, idempotency_key=key)
            found = (await services.history.find(query)).entries
            if found:
                self.checker.key_found(account_id, key, found[0][0].transfer_id)
            else:
                self.checker.key_not_found(account_id, key, asked_at, last_used_at)

        reply = await self.call(f"look up {key}", handler, patience_seconds=10.0)
        return not reply.is_unknown

    # Charges

    async def charge(self) -> None:
        """Create a charge; then pay, cancel, read and await it, some of it at the same time."""
        partner = self.partner()
        charge = await self._create_charge(partner)
        if charge is None:
            return
        if self.random.random() < 0.1:  # around the time when it expires
            await asyncio.sleep(LIFETIME_SECONDS + self.random.uniform(-1.5, 1.5))
        kinds = [self._pay, self._pay, self._cancel, self._read, self._await]
        chosen = self.random.sample(kinds, k=self.random.randint(1, 4))
        await asyncio.gather(*(act(partner, charge) for act in chosen))
        await self._read(partner, charge)

    async def _create_charge(self, partner: PartnerApp) -> Charge | None:
        key = self.new_name() if self.random.random() < 0.7 else None
        terms = ChargeTerms(amount=self.random.choice([1, 10, 60]) * MICROS)

        async def handler(services: Services) -> Charge:
            created = await services.charges.create(
                partner.person.account_id, partner.client_id, terms, key
            )
            return created.charge

        attempts = 3 if key is not None else 1
        reply = await self.until_known(f"create charge {key}", handler, attempts)
        return reply.value if reply.kind == "answer" else None

    async def _pay(self, _: PartnerApp, charge: Charge) -> None:
        payer = self.person()

        async def handler(services: Services) -> str:
            current = await services.charges.charge_by_id(charge.id)
            if current.status != "created":
                return current.status
            await services.charges.pay(current, payer.account_id)
            return "paid"

        await self._ask(f"pay {charge.id}", charge, handler, attempts=2)

    async def _cancel(self, partner: PartnerApp, charge: Charge) -> None:
        async def handler(services: Services) -> str:
            return (await services.charges.cancel(partner.person.account_id, charge.id)).status

        await self._ask(f"cancel {charge.id}", charge, handler, attempts=2)

    async def _read(self, partner: PartnerApp, charge: Charge) -> None:
        async def handler(services: Services) -> str:
            return (await services.charges.own_charge(partner.person.account_id, charge.id)).status

        await self._ask(f"read {charge.id}", charge, handler)

    async def _await(self, partner: PartnerApp, charge: Charge) -> None:
        seconds = self.random.choice([1.0, 10.0])

        async def handler(services: Services) -> str:
            account_id = partner.person.account_id
            return (await services.charges.wait_for_outcome(account_id, charge.id, seconds)).status

        await self._ask(f"await {charge.id}", charge, handler)

    async def _ask(
        self,
        name: str,
        charge: Charge,
        handler: Callable[[Services], Awaitable[str]],
        attempts: int = 1,
    ) -> None:
        """Ask about a charge; the checker judges the status in the answer."""
        asked_at = self.around.now()

        async def checked(services: Services) -> None:
            status = await handler(services)
            self.checker.charge_answered(charge.id, status, asked_at)

        await self.until_known(name, checked, attempts)

    # OAuth

    async def connect(self) -> None:
        """Connect an account to an app: exchange the code, sometimes twice; end the token."""
        partner, person = self.partner(), self.person()
        query = {"client_id": partner.client_id, "redirect_uri": REDIRECT_URI, "scope": "balance"}
        address = urlencode(query).encode()

        async def allow(services: Services) -> str:
            return await services.connect.allow(address, person.account_id, _SOURCE)

        reply = await self.call("allow", allow)
        if reply.kind != "answer":
            return
        [code] = parse_qs(urlsplit(reply.value).query)["code"]
        exchange = self._exchange(partner, code)
        times = self.random.choice([1, 1, 2, 3])
        replies = await asyncio.gather(
            *(self.call(f"exchange {code[:8]}", exchange) for _ in range(times))
        )
        tokens = [reply.value for reply in replies if reply.kind == "answer"]
        if tokens and self.random.random() < 0.5:
            await self._use_token(partner, person, tokens[0])

    def _exchange(self, partner: PartnerApp, code: str) -> Handler:
        request = Exchange(
            app_id=partner.client_id, code=code, redirect_uri=REDIRECT_URI, code_verifier=None
        )

        async def handler(services: Services) -> str:
            issued = await services.tokens.exchange(request)
            self.checker.code_exchanged(code, handle_of(issued.secret))
            return issued.secret

        return handler

    async def _use_token(self, partner: PartnerApp, person: Person, token: str) -> None:
        async def use(services: Services) -> object:
            return await services.token_lookup.user(token)

        async def revoke(services: Services) -> None:
            await services.tokens.revoke(token, partner.client_id)

        async def disconnect(services: Services) -> None:
            await services.connections.disconnect(person.account_id, partner.client_id, _SOURCE)

        await self.call("use token", use)
        ended = await self.call("end token", self.random.choice([revoke, disconnect]))
        tails_lost = self.checker.tails_lost
        if ended.kind == "answer":
            used = await self.call("use token", use)
            if used.kind == "answer" and self.checker.tails_lost == tails_lost == 0:
                self.checker.fail("a token that was ended is still valid")


Act = Callable[[Client], Awaitable[Any]]

_ACTS: tuple[tuple[float, Act], ...] = (
    (0.56, Client.transfer_with_key),
    (0.16, Client.transfer_without_key),
    (0.05, Client.transfer_twice_at_once),
    (0.03, Client.fund),
    (0.08, Client.read_balance),
    (0.08, Client.charge),
    (0.04, Client.connect),
)
