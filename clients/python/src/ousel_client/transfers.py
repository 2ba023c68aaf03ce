"""Transfers: prepared, sent until the outcome is known, listed and found."""

from collections.abc import Coroutine
from datetime import datetime
from typing import Any, Literal, Protocol, TypeVar, overload

from ousel_client.amounts import Amount, exact, json_object
from ousel_client.drivers import AsyncDriver, PageSteps, SyncDriver
from ousel_client.exchange import Steps, segment
from ousel_client.intents import TransferIntent, checked_key, keyed
from ousel_client.operations import Driver, ListOperation, Operation, Resource, bound
from ousel_client.records import Account, Transfer
from ousel_client.refusals import IdempotencyConflict

Sent_co = TypeVar("Sent_co", covariant=True)


class Send(Protocol[Sent_co]):
    """Sends a transfer until it is known to have happened, or not to happen.

    Give it the intent that you wrote down; or what makes one, and a key is made where none is
    given: the transfer shows it, and so does every exception.
    """

    @overload
    def __call__(self, intent: TransferIntent, /) -> Sent_co: ...
    @overload
    def __call__(
        self,
        *,
        to: str,
        amount: Amount,
        note: str | None = None,
        idempotency_key: str | None = None,
    ) -> Sent_co: ...


class Sending:
    """The two forms of `send`, for both kinds of client."""

    @overload
    def __get__(self, transfers: Resource[SyncDriver], owner: Any) -> Send[Transfer]: ...
    @overload
    def __get__(
        self, transfers: Resource[AsyncDriver], owner: Any
    ) -> Send[Coroutine[Any, Any, Transfer]]: ...
    def __get__(self, transfers: Any, owner: Any) -> Any:
        """Return the call as a method of these transfers."""
        return bound(_send, transfers, "run")


class Transfers(Resource[Driver]):
    """Sends money from the key owner's balance, and tells what moved."""

    send = Sending()

    def prepare(
        self,
        *,
        to: str,
        amount: Amount,
        note: str | None = None,
        idempotency_key: str | None = None,
    ) -> TransferIntent:
        """Return the intent of a transfer, with a new key where none is given; nothing is sent."""
        return TransferIntent(
            to=to, amount=exact(amount), note=note, idempotency_key=checked_key(idempotency_key)
        )

    @Operation
    def find(self, *, idempotency_key: str) -> Steps[Transfer | None]:
        """Return the transfer that was sent with this key, or None where none was so far."""
        return self._found(checked_key(idempotency_key))

    @ListOperation
    def list(
        self,
        *,
        direction: Literal["in", "out"] | None = None,
        kind: Literal["transfer", "charge_payment", "funding"] | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        page_size: int = 100,
    ) -> PageSteps[Transfer]:
        """Go through the transfers that fit, newest first."""
        return self._pages(
            Transfer,
            "/transfers",
            {
                "direction": direction,
                "kind": kind,
                "created_after": _timestamp(created_after),
                "created_before": _timestamp(created_before),
                "limit": page_size,
            },
        )

    def _sent(self, intent: TransferIntent) -> Steps[Transfer]:
        body = json_object({"to": intent.to, "amount": intent.amount, "note": intent.note})
        request = self._post("/transfers", body, idempotency_key=intent.idempotency_key)
        try:
            return (yield from self._record(Transfer, request))
        except IdempotencyConflict as conflict:
            original = yield from self._found(intent.idempotency_key)
            conflict.original = original
            if original is None or not (yield from self._is_meant(intent, original)):
                raise
            return original

    def _found(self, idempotency_key: str) -> Steps[Transfer | None]:
        page_after = self._pages(Transfer, "/transfers", {"idempotency_key": idempotency_key})
        page = yield from page_after(None)
        return page.data[0] if page.data else None

    def _is_meant(self, intent: TransferIntent, original: Transfer) -> Steps[bool]:
        """Say whether the transfer is the intended one, whichever name its recipient goes by."""
        if (original.amount, original.note) != (intent.amount, intent.note):
            return False
        recipient = yield from self._read(Account, f"/accounts/{segment(intent.to)}")
        return recipient.id == original.to.id


def _send(
    transfers: Transfers[Any], intent: TransferIntent | None = None, **parts: Any
) -> Steps[Transfer]:
    intent = intent or transfers.prepare(**parts)
    return keyed(transfers._sent(intent), intent.idempotency_key)  # noqa: SLF001


def _timestamp(moment: datetime | None) -> str | None:
    if moment is not None and moment.tzinfo is None:
        raise ValueError("A moment needs a time zone.")
    return None if moment is None else moment.isoformat()
