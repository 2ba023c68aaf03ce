"""Sending money in a browser: a form, a confirmation page, and the receipt in the activity.

The form carries an idempotency key, which the confirmation page passes on. So however often that
page is sent, reloaded or opened again, the money moves once.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

from ousel.http.messages import Answer
from ousel.kernel.clock import Clock
from ousel.kernel.errors import FieldChecks, InvalidForm, Refusal
from ousel.kernel.ids import new_id
from ousel.kernel.money import json_from_micros, micros_from_json, money_text
from ousel.ledger.refusals import (
    AccountFrozen,
    AccountNotFound,
    IdempotencyConflict,
    InsufficientBalance,
    SameAccount,
)
from ousel.ledger.rules import Entry
from ousel.site.redirects import see_other
from ousel.site.rendering import PageRenderer
from ousel.site.visits import (
    PageRoute,
    Visit,
    needs_identity_check,
    require_identity_check,
)
from ousel.transfers.rules import (
    NOTE_CHARACTERS_MAX,
    parse_note,
    parse_typed_amount,
    parse_typed_recipient,
)
from ousel.transfers.sending import Intent, IntentReview, SendService

FORM: Final = "/send"
CONFIRMATION: Final = "/send/confirm"

_FIELDS: Final = ("to", "amount", "note")
_KEY: Final = re.compile(r"send_[0-9a-v]{26}")


class SendPages:
    """Serves the pages on which people send money."""

    def __init__(
        self,
        pages: PageRenderer,
        service: SendService,
        clock: Clock,
        confirm_over_micros: int | None,
    ) -> None:
        """Send through this service; more than this amount needs an identity check."""
        self._pages = pages
        self._service = service
        self._clock = clock
        self._confirm_over_micros = confirm_over_micros

    def routes(self) -> list[PageRoute]:
        """Return the routes of sending."""
        return [
            PageRoute(method="GET", path=FORM, answer=self.show_form),
            PageRoute(method="POST", path=FORM, answer=self.check_form),
            PageRoute(method="GET", path=CONFIRMATION, answer=self.show_confirmation),
            PageRoute(method="POST", path=CONFIRMATION, answer=self.send),
        ]

    async def show_form(self, visit: Visit) -> Answer:
        """Show the form, filled in from the query; a link never does more than this."""
        return self._form_page(visit, visit.query, {})

    async def check_form(self, visit: Visit) -> Answer:
        """Lead to the confirmation page, or show the form again with all that is wrong."""
        try:
            intent = await self._intent_from_form(visit)
        except InvalidForm as refusal:
            return self._form_page(visit, visit.form, refusal.errors)
        return see_other(f"{CONFIRMATION}?{urlencode(_signed_fields(visit, intent))}")

    async def show_confirmation(self, visit: Visit) -> Answer:
        """Show who would get how much, by name; nothing has moved yet.

        If this person has sent it in an earlier session, lead to the receipt.
        """
        intent = _verified_intent(visit, visit.query)
        if intent is None:
            return await self._receipt_if_sent(visit, visit.query) or _back_to_form(visit.query)
        return await self._confirmation_page(visit, intent)

    async def send(self, visit: Visit) -> Answer:
        """Send the money once, and lead to the receipt, however often the form is sent."""
        intent = _verified_intent(visit, visit.form)
        if intent is None:
            return _back_to_form(visit.form)
        if self._needs_identity_check(visit, intent):
            receipt = await self._receipt_if_sent(visit, visit.form)
            if receipt is not None:
                return receipt
            require_identity_check(visit, f"send {money_text(intent.amount)}")
        try:
            sent = await self._service.send(visit.signed_in.account_id, intent)
        except Refusal as refusal:
            try:
                return await self._confirmation_page(visit, intent, refusal)
            except Refusal:  # it may say that nothing was written
                raise refusal from refusal.__cause__
        return _to_receipt(sent.entry, "sent-earlier" if sent.replayed else "sent")

    async def _receipt_if_sent(self, visit: Visit, fields: Mapping[str, str]) -> Answer | None:
        """Lead to the receipt if this person has sent exactly this, or return None.

        The fields need no signature. They may be from a confirmation page of an earlier session.
        """
        key = fields.get("idempotency_key", "")
        if _KEY.fullmatch(key) is None:
            return None
        sent = await self._service.find_sent(visit.signed_in.account_id, key)
        if sent is None:
            return None
        intent, entry = sent
        is_same = _typed(intent) == {name: fields.get(name, "") for name in _FIELDS}
        return _to_receipt(entry, "sent-earlier") if is_same else None

    async def _intent_from_form(self, visit: Visit) -> Intent:
        """Return what the form asks for, or raise InvalidForm with everything that is wrong."""
        form, checks = visit.form, FieldChecks()
        key = form.get("idempotency_key", "")
        if _KEY.fullmatch(key) is None:
            key = self._new_key()
        to = checks.value(lambda: parse_typed_recipient(form.get("to", "")), "to")
        amount = checks.value(lambda: parse_typed_amount(form.get("amount", "")), "amount")
        note = checks.value(lambda: parse_note(form.get("note", "").strip() or None), "note")
        review = None
        if to is not None:
            try:
                review = await self._service.review(visit.signed_in.account_id, to, key)
            except AccountNotFound as refusal:
                checks.errors["to"] = refusal.detail
        if review is not None and amount is not None:
            refusal_now = review.refusal(amount)
            if refusal_now is not None and not review.was_sent(amount, note):
                field = refusal_now.param or "amount"
                checks.errors[field] = _explain(refusal_now, review)
        checks.finish()
        assert review is not None
        assert amount is not None
        if review.entry is not None and not review.was_sent(amount, note):
            key = self._new_key()  # the form was used before, for another transfer
        number = review.recipient.account_number
        return Intent(to=number, amount=amount, note=note, idempotency_key=key)

    def _form_page(
        self, visit: Visit, values: Mapping[str, str], errors: Mapping[str, str]
    ) -> Answer:
        return self._pages.render(
            "transfers/send.html",
            visit,
            status=HTTPStatus.BAD_REQUEST if errors else HTTPStatus.OK,
            values={name: values.get(name, "") for name in _FIELDS},
            errors={name: _sentence(errors[name]) for name in _FIELDS if name in errors},
            idempotency_key=self._new_key(),
            note_characters_max=NOTE_CHARACTERS_MAX,
            confirm_over_micros=self._confirm_over_micros,
        )

    async def _confirmation_page(
        self, visit: Visit, intent: Intent, refusal: Refusal | None = None
    ) -> Answer:
        review = await self._service.review(
            visit.signed_in.account_id, intent.to, intent.idempotency_key
        )
        reason = refusal or review.refusal(intent.amount)
        return self._pages.render(
            "transfers/confirm.html",
            visit,
            status=HTTPStatus.OK if refusal is None else refusal.status,
            intent=intent,
            sender=review.sender,
            recipient=review.recipient,
            entry=review.entry if review.was_sent(intent.amount, intent.note) else None,
            refusal=reason,
            reason=None if reason is None else _explain(reason, review),
            needs_identity_check=self._needs_identity_check(visit, intent),
            fields=_signed_fields(visit, intent),
            form_url=_form_url(_typed(intent) | {"to": f"@{review.recipient.username}"}),
        )

    def _needs_identity_check(self, visit: Visit, intent: Intent) -> bool:
        return needs_identity_check(visit, intent.amount, self._confirm_over_micros)

    def _new_key(self) -> str:
        return new_id("send_", self._clock)


def _explain(refusal: Refusal, review: IntentReview) -> str:
    """Return the reason for a refusal in the words of a page."""
    match refusal:
        case SameAccount():
            return "This is your own account."
        case AccountFrozen(param="to"):
            return "This account is frozen, so it cannot receive money."
        case AccountFrozen():
            return "Your account is frozen. It cannot send money until the operator unfreezes it."
        case InsufficientBalance():
            return f"Your balance is only {money_text(review.sender.balance)}."
        case IdempotencyConflict():
            return "This form was used to send something else. Start again with a new form."
        case _:
            return "" if refusal.is_for_operator else refusal.detail


def _sentence(detail: str) -> str:
    """Return the detail of a refusal as a sentence; some begin with the name of the field."""
    return f"The {detail}" if detail[0].islower() else detail


def _typed(intent: Intent) -> dict[str, str]:
    """Return the fields of the form that lead to this intent."""
    return {"to": intent.to, "amount": json_from_micros(intent.amount), "note": intent.note or ""}


def _form_url(values: Mapping[str, str]) -> str:
    given = {name: values[name] for name in _FIELDS if values.get(name)}
    return f"{FORM}?{urlencode(given)}" if given else FORM


def _back_to_form(values: Mapping[str, str]) -> Answer:
    return see_other(_form_url(values))


def _to_receipt(entry: Entry, done: str) -> Answer:
    return see_other(f"/activity/{entry.sequence}?done={done}")


def _signed_fields(visit: Visit, intent: Intent) -> dict[str, str]:
    """Return the intent as fields that only a page of this session can contain.

    Without the signature, a link could lead straight to a confirmation page that somebody else has
    filled in.
    """
    fields = _typed(intent) | {"idempotency_key": intent.idempotency_key}
    return fields | {"signature": _signature(visit, fields)}


def _verified_intent(visit: Visit, fields: Mapping[str, str]) -> Intent | None:
    """Return the intent in these fields, or None if this session has not signed them."""
    signed = {name: fields.get(name, "") for name in (*_FIELDS, "idempotency_key")}
    given = fields.get("signature", "")
    if not hmac.compare_digest(given.encode(), _signature(visit, signed).encode()):
        return None
    return Intent(
        to=signed["to"],
        amount=micros_from_json(signed["amount"].encode()),
        note=signed["note"] or None,
        idempotency_key=signed["idempotency_key"],
    )


def _signature(visit: Visit, fields: Mapping[str, str]) -> str:
    key = f"send:{visit.form_token}".encode()
    return hmac.new(key, urlencode(fields).encode(), hashlib.sha256).hexdigest()
