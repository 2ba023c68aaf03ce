"""POST /transfers, GET /transfers and GET /transfers/:id."""

from typing import Annotated, Literal

import msgspec

from ousel.accounts.rules import IDENTIFIER_CHARACTERS_MAX
from ousel.api.fields import TEXT_PATTERN, Amount
from ousel.api.idempotency import KEY_SCHEMA, REPLAYED_HEADERS, parse_idempotency_key
from ousel.api.paging import (
    LIMIT_DEFAULT,
    Cursor,
    Limit,
    Order,
    Page,
    cursor_at,
    make_page,
    sequence_from_cursor,
    sequence_to_follow,
)
from ousel.api.polling import granted_wait, prefer_header, preference_applied
from ousel.api.refusals import Unauthorized
from ousel.api.route import AnswerDescription, Call, NoBody, NoQuery, Route
from ousel.http.messages import Answer, Headers, json_answer
from ousel.kernel.clock import Clock, micros_from_timestamp
from ousel.kernel.concurrency import ConcurrencyLimit
from ousel.kernel.errors import InvalidAmount
from ousel.kernel.money import micros_from_json
from ousel.ledger import refusals
from ousel.ledger.following import HistoryFollower, NextEntries
from ousel.ledger.history import HistoryQuery
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import ChargeClosed, KeyCheck, KeyRejected, Kind, Refused, Replay
from ousel.ledger.search import HistorySearch
from ousel.transfers.posting import transfer_posting
from ousel.transfers.records import TransferRecord, transfer_record
from ousel.transfers.rules import NOTE_CHARACTERS_MAX, parse_note


class TransferRequest(
    msgspec.Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True
):
    """What to send, and to whom."""

    to: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=IDENTIFIER_CHARACTERS_MAX,
            description="The recipient: @username, account number or email.",
            examples=["@ada"],
        ),
    ]
    amount: Amount
    note: Annotated[
        str | None,
        msgspec.Meta(
            description="Sender and recipient can read it.",
            extra_json_schema={"pattern": TEXT_PATTERN, "maxLength": NOTE_CHARACTERS_MAX},
        ),
    ] = None
    idempotency_key: Annotated[
        str | None,
        msgspec.Meta(
            description="May be sent instead of the header Idempotency-Key;"
            " if both are sent, they must be equal.",
            extra_json_schema=KEY_SCHEMA | {"type": ["string", "null"]},
        ),
    ] = None


class TransfersQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which transfers to list."""

    order: Order = "newest"
    limit: Limit = LIMIT_DEFAULT
    cursor: (
        Annotated[
            Cursor,
            msgspec.Meta(
                description="`next_cursor` of the previous page. With order=oldest, it may also "
                "be the `sequence` of the last transfer that you have handled.",
            ),
        ]
        | None
    ) = None
    direction: Literal["in", "out"] | None = None
    kind: Kind | None = None
    created_after: Annotated[
        str | None,
        msgspec.Meta(
            description="Only transfers after this time.",
            extra_json_schema={"format": "date-time"},
        ),
    ] = None
    created_before: Annotated[
        str | None,
        msgspec.Meta(
            description="Only transfers before this time.",
            extra_json_schema={"format": "date-time"},
        ),
    ] = None
    idempotency_key: Annotated[
        str | None,
        msgspec.Meta(
            description="Only the transfer that you sent with this key, if there is one.",
            extra_json_schema=KEY_SCHEMA,
        ),
    ] = None


class TransferEndpoints:
    """Serves partners that send and list transfers."""

    def __init__(
        self,
        queue: PostingQueue,
        search: HistorySearch,
        follower: HistoryFollower,
        waits: ConcurrencyLimit,
        clock: Clock,
    ) -> None:
        """Send transfers through this queue; find them with this search and this follower."""
        self._queue = queue
        self._search = search
        self._follower = follower
        self._waits = waits
        self._clock = clock

    def routes(self, base: str) -> list[Route]:
        """Return the routes below the base path."""
        return [
            self._route_to_create(base),
            self._route_to_list(base),
            self._route_to_read(base),
        ]

    def _route_to_create(self, base: str) -> Route:
        return Route(
            method="POST",
            path=f"{base}/transfers",
            endpoint=self.create,
            name="createTransfer",
            summary="Send a transfer",
            description=(
                "Moves money from the account that owns the key to the recipient. Send an "
                "Idempotency-Key: a retry with the same key and the same request returns "
                "the first transfer and moves nothing."
            ),
            body=TransferRequest,
            request_headers={"Idempotency-Key": KEY_SCHEMA},
            checks_key_in_transaction=True,
            successes={
                201: AnswerDescription("The money moved.", TransferRecord),
                200: AnswerDescription(
                    "The same request was made before, and no money moved this time.",
                    TransferRecord,
                    {"Idempotent-Replayed": "true"},
                ),
            },
            refusals=(
                InvalidAmount,
                refusals.InsufficientBalance,
                refusals.SameAccount,
                refusals.AccountFrozen,
                refusals.BalanceLimitReached,
                refusals.AccountNotFound,
                refusals.IdempotencyConflict,
                refusals.PostingRefused,
                refusals.EntryAheadOfClock,
                refusals.QueueFull,
            ),
        )

    async def create(self, call: Call[TransferRequest, NoQuery]) -> Answer:
        """Send a transfer."""
        request, partner = call.body, call.partner
        posting = transfer_posting(
            KeyCheck(partner.account_id, partner.handle),
            request.to,
            micros_from_json(bytes(request.amount)),
            parse_note(request.note),
            parse_idempotency_key(call.headers.get(b"idempotency-key"), request.idempotency_key),
            self._clock,
        )
        result = await self._queue.post(posting)
        outcome = result.outcome
        if isinstance(outcome, Refused):
            raise outcome.refusal
        if isinstance(outcome, KeyRejected):
            raise Unauthorized
        assert not isinstance(outcome, ChargeClosed), "a transfer pays no charge"
        assert result.debit_account is not None
        assert result.credit_account is not None
        record = transfer_record(outcome.debit, result.debit_account, result.credit_account)
        if isinstance(outcome, Replay):
            return json_answer(record, headers=REPLAYED_HEADERS)
        return json_answer(record, status=201)

    def _route_to_read(self, base: str) -> Route:
        return Route(
            method="GET",
            path=f"{base}/transfers/{{id}}",
            endpoint=self.read,
            name="getTransfer",
            summary="Read a transfer",
            description="Sender and recipient can read it, each from their own account.",
            path_parameters={"id": "The transfer's id."},
            successes={200: AnswerDescription("The transfer.", TransferRecord)},
            refusals=(refusals.TransferNotFound,),
        )

    async def read(self, call: Call[NoBody, NoQuery]) -> Answer:
        """Answer with one of the caller's transfers."""
        own, entry, counterparty = await self._search.find_transfer(
            call.partner.account_id, call.path["id"]
        )
        return json_answer(transfer_record(entry, own, counterparty))

    def _route_to_list(self, base: str) -> Route:
        return Route(
            method="GET",
            path=f"{base}/transfers",
            endpoint=self.list,
            name="listTransfers",
            summary="List your transfers",
            description=(
                "Transfers in both directions. Follow next_cursor to read the whole list: "
                "nothing is skipped or repeated, whatever is written meanwhile. With "
                "order=oldest, next_cursor is never null: store it, and continue with it "
                "later to get everything that has happened since. In this order, the cursor may "
                "also be the sequence of the last transfer that you have handled, and with "
                "Prefer: wait=N, an empty page is delayed until there is a transfer, or for N "
                "seconds. Use idempotency_key to find out what happened to a transfer whose "
                "answer was lost."
            ),
            query=TransfersQuery,
            request_headers={
                "Prefer": prefer_header("there is a transfer (only with order=oldest)")
            },
            successes={200: AnswerDescription("A page of transfers.", Page[TransferRecord])},
        )

    async def list(self, call: Call[NoBody, TransfersQuery]) -> Answer:
        """Answer with a page of the caller's transfers."""
        wanted = _history_query(call.partner.account_id, call.query)
        if wanted.oldest_first:
            return await self._follow(wanted, call.headers)
        found = await self._search.find(wanted)
        return json_answer(
            make_page(
                found.entries,
                wanted.limit,
                record=lambda item: transfer_record(item[0], found.own, item[1]),
                position=lambda item: item[0].sequence,
            )
        )

    async def _follow(self, wanted: HistoryQuery, headers: Headers) -> Answer:
        """Answer with the next transfers, and wait for one if the caller asks for that."""
        with granted_wait(headers, self._waits, wanted.account_id) as seconds:
            page = _next_page(await self._follower.next_entries(wanted, seconds or 0))
        return json_answer(page, headers=preference_applied(seconds))


def _history_query(account_id: str, query: TransfersQuery) -> HistoryQuery:
    oldest_first = query.order == "oldest"
    return HistoryQuery(
        account_id=account_id,
        limit=query.limit,
        oldest_first=oldest_first,
        after_sequence=sequence_to_follow(query.cursor) if oldest_first else 0,
        before_sequence=None if oldest_first else sequence_from_cursor(query.cursor),
        direction=query.direction,
        kind=query.kind,
        created_after=_moment(query.created_after, "created_after"),
        created_before=_moment(query.created_before, "created_before"),
        idempotency_key=parse_idempotency_key(None, query.idempotency_key),
    )


def _next_page(following: NextEntries) -> Page[TransferRecord]:
    return Page(
        data=[transfer_record(entry, following.own, other) for entry, other in following.entries],
        has_more=following.has_more,
        next_cursor=cursor_at(following.position),
    )


def _moment(text: str | None, param: str) -> int | None:
    return None if text is None else micros_from_timestamp(text, param=param)
