"""What the lab does before a call is answered, such as closing a charge or adding a transfer."""

import contextlib
from typing import Final, Literal, Protocol
from urllib.parse import parse_qsl, urlencode

from ousel.accounts.service import AccountService, IdentifierInUse, NewHolder
from ousel.charges.lifecycle import is_final
from ousel.charges.service import ChargeService
from ousel.http.messages import Request
from ousel.kernel.clock import MICROS_PER_SECOND, Clock
from ousel.kernel.errors import Refusal
from ousel.kernel.money import MICROS_PER_UNIT
from ousel.lab.rules import PAGE_RECORDS, Event
from ousel.lab.service import ArrivedCall
from ousel.ledger.funding import fund_through
from ousel.ledger.queue import PostingQueue
from ousel.ledger.refusals import AccountNotFound
from ousel.ledger.rules import Account

PAYER: Final = "lab_payer"
SHIFT_MICROS: Final = MICROS_PER_UNIT // 100


class MovableClock(Clock, Protocol):
    """The clock of a sandbox."""

    async def advance(self, seconds: int) -> None:
        """Advance the clock."""
        ...

    async def wait_for_others(self) -> None:
        """Wait until the other processes of this server have advanced it too."""
        ...


class LabEvents:
    """Carries out the planned events of a rehearsal, with the same services as the endpoints."""

    def __init__(
        self,
        accounts: AccountService,
        charges: ChargeService,
        posting_queue: PostingQueue,
        clock: MovableClock,
    ) -> None:
        """Move this clock, and pay charges with this service."""
        self._accounts = accounts
        self._charges = charges
        self._posting_queue = posting_queue
        self._clock = clock

    async def carry_out(self, arrived: ArrivedCall, request: Request) -> Event | None:
        """Carry out the event that was planned for the call, before the call is answered.

        Return what happened. None if the charge could not be closed: the next read tries it again.
        """
        match arrived.plan.event:
            case "answered-at-once":
                request.headers = {
                    name: value for name, value in request.headers.items() if name != b"prefer"
                }
            case "paid" | "expired" as outcome:
                try:
                    return await self._close_charge(arrived, outcome)
                except Refusal:
                    return None
            case "shortened":
                request.query = _with_short_page(request.query)
            case "shifted":
                request.query = _with_short_page(request.query)
                with contextlib.suppress(Refusal):  # the list is read all the same
                    account = await self._accounts.get(arrived.rehearsal.account_id)
                    await fund_through(self._posting_queue, self._clock, account, SHIFT_MICROS)
            case "closed-already" | None:  # the first is never planned
                pass
        return arrived.plan.event

    async def _close_charge(
        self, arrived: ArrivedCall, outcome: Literal["paid", "expired"]
    ) -> Event:
        """Let the charge expire, or pay it when it has at most two seconds left.

        If the charge is closed already, leave the clock alone: all partners use it.
        """
        charge_id = arrived.plan.charge_id
        assert charge_id is not None, "otherwise nothing was planned"
        charge = await self._charges.own_charge(arrived.rehearsal.account_id, charge_id)
        if is_final(charge.status):
            return "closed-already"
        left_seconds = (charge.expires_at - self._clock()) // MICROS_PER_SECOND
        if outcome == "expired":
            await self._clock.advance(max(left_seconds + 1, 0))
        else:
            payer = await self._payer()
            await fund_through(self._posting_queue, self._clock, payer, charge.amount)
            await self._clock.advance(max(left_seconds - 1, 0))
            await self._charges.pay(charge, payer.id)
        await self._clock.wait_for_others()
        return outcome

    async def _payer(self) -> Account:
        """Return the account that pays in the lab; open it at the first payment."""
        try:
            return await self._accounts.find(f"@{PAYER}", param="payer")
        except AccountNotFound:
            pass
        holder = NewHolder(
            username=PAYER, email=f"{PAYER}@lab.example", display_name="Payer of the lab"
        )
        try:
            return await self._accounts.open(holder)
        except IdentifierInUse:  # another process was faster
            return await self._accounts.find(f"@{PAYER}", param="payer")


def _with_short_page(query: bytes) -> bytes:
    pairs = [
        (name, value)
        for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True)
        if name != "limit"
    ]
    return urlencode([*pairs, ("limit", str(PAGE_RECORDS))]).encode()
