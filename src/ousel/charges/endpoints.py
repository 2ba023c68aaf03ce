"""POST /charges, GET /charges, GET /charges/:id and POST /charges/:id/cancel."""

from typing import Annotated, Any, Final

import msgspec

from ousel.api.fields import TEXT_PATTERN, Amount
from ousel.api.idempotency import KEY_SCHEMA, REPLAYED_HEADERS, parse_idempotency_key
from ousel.api.paging import LIMIT_DEFAULT, Cursor, Limit, Order, Page, make_page
from ousel.api.polling import (
    TaggedAnswer,
    granted_wait,
    prefer_header,
    preference_applied,
    tag_answer,
)
from ousel.api.route import AnswerDescription, Call, NoBody, NoQuery, Route
from ousel.charges.records import (
    ChargeRecord,
    charge_record,
    position_after,
    position_of_charge,
)
from ousel.charges.refusals import ChargeNotCancelable, ChargeNotFound
from ousel.charges.rules import (
    DESCRIPTION_CHARACTERS_MAX,
    REFERENCE_CHARACTERS_MAX,
    Charge,
    ChargeQuery,
    ChargeTerms,
    Status,
)
from ousel.charges.service import ChargeService
from ousel.http.messages import Answer, json_answer
from ousel.kernel.clock import micros_from_timestamp
from ousel.kernel.concurrency import ConcurrencyLimit
from ousel.kernel.errors import InvalidAmount, InvalidField
from ousel.kernel.money import CURRENCY, micros_from_json
from ousel.kernel.texts import parse_text
from ousel.ledger.refusals import IdempotencyConflict, QueueFull
from ousel.partners.rules import URL_CHARACTERS_MAX, parse_url

CACHED_ANSWERS_MAX: Final = 4_096

_ETAG_HEADER: Final = {"ETag": '"[0-9a-f]+"'}
_URL_SCHEMA: Final = {"format": "uri", "maxLength": URL_CHARACTERS_MAX}
_POLLING_HEADERS: Final[dict[str, dict[str, Any]]] = {
    "If-None-Match": {"type": "string", "description": "The ETag of an earlier answer."},
    "Prefer": prefer_header("the status is final"),
}
_ID: Final = {"id": "The charge's id."}


class ChargeRequest(
    msgspec.Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True
):
    """How much to collect, and where the payer goes afterwards."""

    amount: Amount
    currency: Annotated[str, msgspec.Meta(extra_json_schema={"const": CURRENCY})] = CURRENCY
    description: Annotated[
        str | None,
        msgspec.Meta(
            description="Shown to the payer.",
            extra_json_schema={"pattern": TEXT_PATTERN, "maxLength": DESCRIPTION_CHARACTERS_MAX},
        ),
    ] = None
    reference: Annotated[
        str | None,
        msgspec.Meta(
            description="Your own name for the charge; lists can be filtered by it.",
            extra_json_schema={"pattern": TEXT_PATTERN, "maxLength": REFERENCE_CHARACTERS_MAX},
        ),
    ] = None
    success_url: Annotated[
        str | None,
        msgspec.Meta(
            description="Where the payer returns after paying; https, or http on loopback.",
            extra_json_schema=_URL_SCHEMA,
        ),
    ] = None
    cancel_url: Annotated[
        str | None,
        msgspec.Meta(
            description="Where “Cancel” on the checkout page leads; the charge stays open. The page"
            " of a canceled or expired charge links to it too. https, or http on loopback.",
            extra_json_schema=_URL_SCHEMA,
        ),
    ] = None


class ChargesQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which charges to list."""

    order: Order = "newest"
    limit: Limit = LIMIT_DEFAULT
    cursor: Cursor | None = None
    status: Status | None = None
    status_changed_after: Annotated[
        str | None,
        msgspec.Meta(
            description="Only charges that were paid, were canceled or expired after this time.",
            extra_json_schema={"format": "date-time"},
        ),
    ] = None
    reference: Annotated[
        str | None,
        msgspec.Meta(
            extra_json_schema={"pattern": TEXT_PATTERN, "maxLength": REFERENCE_CHARACTERS_MAX}
        ),
    ] = None


class ChargeEndpoints:
    """Serves charges to the partners that create them."""

    def __init__(self, charges: ChargeService, waits: ConcurrencyLimit, portal_url: str) -> None:
        """Serve from this service; checkout pages are at this portal address."""
        self._charges = charges
        self._waits = waits
        self._portal_url = portal_url
        self._answers: dict[str, tuple[Charge, TaggedAnswer]] = {}  # by charge id

    def routes(self, base: str) -> list[Route]:
        """Return the routes below the base path."""
        return [
            self._route_to_create(base),
            self._route_to_list(base),
            self._route_to_read(base),
            self._route_to_cancel(base),
        ]

    def _route_to_create(self, base: str) -> Route:
        return Route(
            method="POST",
            path=f"{base}/charges",
            endpoint=self.create,
            name="createCharge",
            summary="Create a charge",
            description=(
                "Send the payer to its checkout_url, then poll the charge until its status "
                "is final; a payer who returns to success_url has not necessarily paid. "
                "A retry with the same Idempotency-Key and the same request returns the "
                "first charge in its current state."
            ),
            body=ChargeRequest,
            request_headers={"Idempotency-Key": KEY_SCHEMA},
            successes={
                201: AnswerDescription("The charge is created.", ChargeRecord),
                200: AnswerDescription(
                    "The same request was made before, and this is its charge.",
                    ChargeRecord,
                    {"Idempotent-Replayed": "true"},
                ),
            },
            refusals=(InvalidAmount, IdempotencyConflict, QueueFull),
        )

    async def create(self, call: Call[ChargeRequest, NoQuery]) -> Answer:
        """Create a charge."""
        partner = call.partner
        created = await self._charges.create(
            partner.account_id,
            partner.client_id,
            parse_terms(call.body),
            parse_idempotency_key(call.headers.get(b"idempotency-key"), None),
        )
        record = self._record(created.charge)
        if created.replayed:
            return json_answer(record, headers=REPLAYED_HEADERS)
        return json_answer(record, status=201)

    def _route_to_read(self, base: str) -> Route:
        return Route(
            method="GET",
            path=f"{base}/charges/{{id}}",
            endpoint=self.read,
            name="getCharge",
            summary="Read a charge",
            description=(
                "Each answer has an ETag. Send it back as If-None-Match: if the charge has not "
                "changed, the answer is 304. With Prefer: wait=N, the answer is delayed until "
                "the status is final, or for N seconds, and has Preference-Applied: wait=N."
            ),
            path_parameters=_ID,
            request_headers=_POLLING_HEADERS,
            successes={
                200: AnswerDescription("The charge.", ChargeRecord, _ETAG_HEADER),
                304: AnswerDescription("The charge has not changed.", None, _ETAG_HEADER),
            },
            refusals=(ChargeNotFound,),
        )

    async def read(self, call: Call[NoBody, NoQuery]) -> Answer:
        """Answer with the charge.

        If the caller asks to wait, answer when the charge is final or the time is up.
        """
        key = (call.partner.account_id, call.path["id"])
        with granted_wait(call.headers, self._waits, call.partner.account_id) as seconds:
            if seconds is None:
                answer = self._tagged_answer(await self._charges.own_charge(*key))
            else:
                charge = await self._charges.wait_for_outcome(*key, seconds)
                applied = preference_applied(seconds)
                answer = tag_answer(json_answer(self._record(charge), headers=applied))
        return answer.answer_to(call.headers)

    def _route_to_list(self, base: str) -> Route:
        return Route(
            method="GET",
            path=f"{base}/charges",
            endpoint=self.list,
            name="listCharges",
            summary="List your charges",
            description="By time of creation. Follow next_cursor to read all.",
            query=ChargesQuery,
            successes={200: AnswerDescription("A page of charges.", Page[ChargeRecord])},
        )

    async def list(self, call: Call[NoBody, ChargesQuery]) -> Answer:
        """Answer with a page of the caller's charges."""
        query = call.query
        charges = await self._charges.list_charges(
            ChargeQuery(
                account_id=call.partner.account_id,
                limit=query.limit,
                oldest_first=query.order == "oldest",
                position=position_after(query.cursor),
                status=query.status,
                status_changed_after=None
                if query.status_changed_after is None
                else micros_from_timestamp(
                    query.status_changed_after, param="status_changed_after"
                ),
                reference=parse_text(query.reference, REFERENCE_CHARACTERS_MAX, param="reference"),
            )
        )
        return json_answer(
            make_page(charges, query.limit, record=self._record, position=position_of_charge)
        )

    def _route_to_cancel(self, base: str) -> Route:
        return Route(
            method="POST",
            path=f"{base}/charges/{{id}}/cancel",
            endpoint=self.cancel,
            name="cancelCharge",
            summary="Cancel a charge",
            description="A charge can be canceled only while its status is created.",
            path_parameters=_ID,
            successes={200: AnswerDescription("The charge is canceled.", ChargeRecord)},
            refusals=(ChargeNotFound, ChargeNotCancelable),
        )

    async def cancel(self, call: Call[NoBody, NoQuery]) -> Answer:
        """Cancel the charge."""
        charge = await self._charges.cancel(call.partner.account_id, call.path["id"])
        return json_answer(self._record(charge))

    def _tagged_answer(self, charge: Charge) -> TaggedAnswer:
        cached = self._answers.get(charge.id)
        if cached is not None and (cached[0] is charge or cached[0] == charge):
            return cached[1]
        if len(self._answers) >= CACHED_ANSWERS_MAX:
            self._answers.clear()
        answer = tag_answer(json_answer(self._record(charge)))
        self._answers[charge.id] = charge, answer
        return answer

    def _record(self, charge: Charge) -> ChargeRecord:
        return charge_record(charge, self._portal_url)


def parse_terms(request: ChargeRequest) -> ChargeTerms:
    """Return the terms of the request, or raise the refusal that names the invalid field."""
    if request.currency != CURRENCY:
        raise InvalidField(
            f"currency must be {CURRENCY}, the only currency of this ledger.", param="currency"
        )
    return ChargeTerms(
        amount=micros_from_json(bytes(request.amount)),
        description=parse_text(
            request.description, DESCRIPTION_CHARACTERS_MAX, param="description"
        ),
        reference=parse_text(request.reference, REFERENCE_CHARACTERS_MAX, param="reference"),
        success_url=_parse_url(request.success_url, "success_url"),
        cancel_url=_parse_url(request.cancel_url, "cancel_url"),
    )


def _parse_url(text: str | None, param: str) -> str | None:
    if text is not None:
        parse_url(text, param=param)
    return text
