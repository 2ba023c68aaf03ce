"""Transfers: preparing, sending, listing, finding and following them."""

from collections.abc import Coroutine
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Literal, Protocol, TypeVar, overload

from ousel_client.amounts import Amount, encode_object, parse_amount
from ousel_client.decoding import decode_record
from ousel_client.drivers import AsyncDriver, PageSteps, SyncDriver
from ousel_client.errors import OuselError, UnexpectedAnswer
from ousel_client.exchange import Steps, segment
from ousel_client.following import AsyncFollow, Follow, follow_query
from ousel_client.intents import (
    TransferIntent,
    parse_key,
    raise_conflict_or_doubt,
    require_key,
    with_key_in_errors,
)
from ousel_client.operations import (
    Driver,
    ListOperation,
    Operation,
    Resource,
    bind_operation,
    decode_answer,
    timestamp,
)
from ousel_client.receipts import Receipt, ReceiptParts
from ousel_client.records import Account, Transfer
from ousel_client.refusals import IdempotencyConflict

RECEIPT_SECONDS_MAX: Final = 10  # how long the server may wait until the transfer is sealed

Direction = Literal["in", "out"]
Kind = Literal["transfer", "charge_payment", "funding", "redemption"]
Sent_co = TypeVar("Sent_co", covariant=True)
Follow_co = TypeVar("Follow_co", covariant=True)


class Send(Protocol[Sent_co]):
    """The types of `send`."""

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


class SendOperation:
    """The method `send`, for both kinds of client."""

    @overload
    def __get__(self, transfers: Resource[SyncDriver], owner: Any) -> Send[Transfer]: ...
    @overload
    def __get__(
        self, transfers: Resource[AsyncDriver], owner: Any
    ) -> Send[Coroutine[Any, Any, Transfer]]: ...
    def __get__(self, transfers: Any, owner: Any) -> Any:
        """Return `send` as a method of these transfers."""
        return bind_operation(_send, transfers, "run")


class StartToFollow(Protocol[Follow_co]):
    """Iterates over the account's past transfers, oldest first, then over new ones as they happen.

    It begins after the cursor, or with the first transfer. The cursor is the `cursor` that the
    iterator had, or the `sequence` of the last transfer that was handled. Store it together with
    what you do about each transfer: then none is missed and none is handled twice.
    """

    def __call__(
        self,
        cursor: str | int | None = None,
        *,
        direction: Direction | None = None,
        kind: Kind | None = None,
        page_size: int = 100,
    ) -> Follow_co:
        """Start to follow."""
        ...


class FollowOperation:
    """The method `follow`, for both kinds of client."""

    @overload
    def __get__(self, transfers: Resource[SyncDriver], owner: Any) -> StartToFollow[Follow]: ...
    @overload
    def __get__(
        self, transfers: Resource[AsyncDriver], owner: Any
    ) -> StartToFollow[AsyncFollow]: ...
    def __get__(self, transfers: Any, owner: Any) -> Any:
        """Return `follow` as a method of these transfers."""
        return transfers._follow  # noqa: SLF001


class Transfers(Resource[Driver]):
    """Sends money from the account that owns the key, and lists its transfers."""

    send = SendOperation()
    follow = FollowOperation()

    def prepare(
        self,
        *,
        to: str,
        amount: Amount,
        note: str | None = None,
        idempotency_key: str | None = None,
    ) -> TransferIntent:
        """Return the intent of a transfer, with a new key if none is given. Send nothing."""
        return TransferIntent(
            to=to,
            amount=parse_amount(amount),
            note=note,
            idempotency_key=parse_key(idempotency_key),
        )

    @Operation
    def get(self, transfer_id: str) -> Steps[Transfer]:
        """Return a transfer that the account sent or received."""
        return self._read(Transfer, f"/transfers/{segment(transfer_id)}")

    @Operation
    def receipt(self, transfer_id: str) -> Steps[Receipt]:
        """Return the receipt of a transfer, as soon as the transfer is sealed.

        Raises ReceiptNotReady if it is not sealed within ten seconds.
        """
        request = replace(
            self._get(f"/transfers/{segment(transfer_id)}/receipt"),
            headers={"Prefer": f"wait={RECEIPT_SECONDS_MAX}"},
            held_seconds=RECEIPT_SECONDS_MAX,
        )
        answer = yield from self._answer(request)
        decode_answer(decode_record, ReceiptParts, answer)
        return Receipt(answer.body)

    @Operation
    def find(self, *, idempotency_key: str) -> Steps[Transfer | None]:
        """Return the transfer that was sent with this key, or None.

        None is final only if the last attempt with this key is more than 60 seconds ago: until
        then, it may still be carried out.
        """
        return self._find(require_key(idempotency_key))

    @ListOperation
    def list(
        self,
        *,
        direction: Direction | None = None,
        kind: Kind | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        page_size: int = 100,
    ) -> PageSteps[Transfer]:
        """Iterate over the matching transfers, newest first."""
        return self._pages(
            Transfer,
            "/transfers",
            {
                "direction": direction,
                "kind": kind,
                "created_after": timestamp(created_after),
                "created_before": timestamp(created_before),
                "limit": page_size,
            },
        )

    def _follow(
        self, cursor: str | int | None = None, *, page_size: int = 100, **filters: str | None
    ) -> Follow | AsyncFollow:
        request = self._get("/transfers", follow_query({"limit": page_size, **filters}))
        position = None if cursor is None else str(cursor)
        driver: SyncDriver | AsyncDriver = self._driver
        if isinstance(driver, SyncDriver):
            return Follow(driver, self._settings, request, position)
        return AsyncFollow(driver, self._settings, request, position)

    def _send_intent(self, intent: TransferIntent) -> Steps[Transfer]:
        body = encode_object({"to": intent.to, "amount": intent.amount, "note": intent.note})
        request = self._post("/transfers", body, idempotency_key=intent.idempotency_key)
        try:
            transfer = yield from self._record(Transfer, request)
        except IdempotencyConflict as conflict:
            try:
                original = yield from self._find(intent.idempotency_key)
                conflict.original = original
                if original is not None:
                    if (yield from self._is_intended(intent, original)):
                        return original
                    conflict.in_doubt = False  # the key belongs to the original, and always will
            except OuselError as error:
                raise_conflict_or_doubt(conflict, error)
            raise
        if transfer.idempotency_key != intent.idempotency_key:
            unexpected = UnexpectedAnswer(
                "The answer shows a transfer with another idempotency key."
            )
            unexpected.in_doubt = True
            raise unexpected
        return transfer

    def _find(self, idempotency_key: str) -> Steps[Transfer | None]:
        page_after = self._pages(Transfer, "/transfers", {"idempotency_key": idempotency_key})
        page = yield from page_after(None)
        return page.data[0] if page.data else None

    def _is_intended(self, intent: TransferIntent, original: Transfer) -> Steps[bool]:
        """Return whether this is the intended transfer, whichever way its recipient is named."""
        if (original.amount, original.note) != (intent.amount, intent.note):
            return False
        recipient = yield from self._read(Account, f"/accounts/{segment(intent.to)}")
        return recipient.id == original.to.id


def _send(
    transfers: Transfers[Any], intent: TransferIntent | None = None, **parts: Any
) -> Steps[Transfer]:
    """Send a transfer, and retry, as the retry policy allows, until its outcome is known.

    Pass an intent that you have stored, or the parts of a transfer: to, amount, note and
    idempotency_key. Without an idempotency key, a new one is created. The transfer and every
    OuselError contain it. An exception that this client does not raise, such as CancelledError or
    KeyboardInterrupt, has it only in a note. So if a call can be canceled, prepare the intent
    first.
    """
    if intent is not None and parts:
        raise TypeError("Give an intent or the parts of a transfer, not both.")
    intent = intent or transfers.prepare(**parts)
    return with_key_in_errors(transfers._send_intent(intent), intent.idempotency_key)  # noqa: SLF001
