"""POST /sandbox/clock, /sandbox/charges/:id/pay and /sandbox/fund; GET /sandbox/mail."""

import re
from typing import Annotated, Final, Literal

import msgspec

from ousel.accounts.rules import EMAIL_CHARACTERS_MAX, IDENTIFIER_CHARACTERS_MAX
from ousel.accounts.service import AccountService
from ousel.api.fields import TEXT_PATTERN, Amount, Time
from ousel.api.paging import (
    LIMIT_DEFAULT,
    Cursor,
    Limit,
    Page,
    invalid_cursor,
    make_page,
    text_from_cursor,
)
from ousel.api.route import AnswerDescription, Call, NoBody, NoQuery, Route
from ousel.charges.records import ChargeRecord, charge_record
from ousel.charges.refusals import ChargeNotFound, ChargeNotPayable, OwnCharge
from ousel.charges.service import ChargeService
from ousel.http.messages import Answer, json_answer
from ousel.kernel.clock import timestamp
from ousel.kernel.errors import DatabaseUnavailable, InvalidAmount, OutcomeUnknown
from ousel.kernel.money import micros_from_json
from ousel.kernel.texts import parse_text
from ousel.ledger import refusals
from ousel.ledger.funding import fund_through
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import Movement
from ousel.mail.outbox import AFTER_ALL_MAIL, Outbox
from ousel.mail.rules import Mail
from ousel.sandbox.clock import ADVANCE_SECONDS_MAX, SandboxClock
from ousel.transfers.records import TransferRecord, transfer_record

_MAIL_ID: Final = re.compile(r"mail_[0-9a-v]{26}")

Identifier = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=IDENTIFIER_CHARACTERS_MAX,
        description="@username, account number or email.",
        examples=["@ada"],
    ),
]

_REFUSALS_OF_THE_LEDGER: Final = (
    refusals.AccountNotFound,
    refusals.AccountFrozen,
    refusals.InsufficientBalance,
    refusals.BalanceLimitReached,
    refusals.EntryAheadOfClock,
    refusals.QueueFull,
)


class ClockRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far to advance the clock."""

    advance: Annotated[
        int,
        msgspec.Meta(ge=0, le=ADVANCE_SECONDS_MAX, description="Whole seconds.", examples=[7200]),
    ]


class PayRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who pays."""

    payer: Identifier


class FundRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which account receives how much."""

    to: Identifier
    amount: Amount


class MailQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which mail to list."""

    limit: Limit = LIMIT_DEFAULT
    cursor: Cursor | None = None
    to: (
        Annotated[
            str,
            msgspec.Meta(
                max_length=EMAIL_CHARACTERS_MAX,
                description="The email that the mail was written to.",
                extra_json_schema={"pattern": TEXT_PATTERN},
            ),
        ]
        | None
    ) = None


class MailRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a live server would have sent."""

    object: Literal["mail"] = "mail"
    to: str
    subject: str
    text: str
    created_at: Time


class ClockRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The sandbox's time."""

    object: Literal["clock"] = "clock"
    now: Time


class SandboxEndpoints:
    """Serves tests: advances the clock, pays charges, issues money."""

    def __init__(
        self,
        accounts: AccountService,
        clock: SandboxClock,
        posting_queue: PostingQueue,
        charges: ChargeService,
        outbox: Outbox,
        portal_url: str,
    ) -> None:
        """Use the same services as the live endpoints and pages."""
        self._accounts = accounts
        self._clock = clock
        self._posting_queue = posting_queue
        self._charges = charges
        self._outbox = outbox
        self._portal_url = portal_url

    def routes(self, base: str) -> list[Route]:
        """Return the routes below the base path."""
        return [
            self._route_to_advance(base),
            self._route_to_pay(base),
            self._route_to_fund(base),
            self._route_to_mail(base),
        ]

    def _route_to_advance(self, base: str) -> Route:
        return Route(
            method="POST",
            path=f"{base}/sandbox/clock",
            endpoint=self.advance,
            name="advanceSandboxClock",
            summary="Move the sandbox's clock forward",
            description=(
                "This clock decides when charges, codes and tokens expire. All processes of "
                "the sandbox follow within a second, and the clock stays ahead after a restart."
            ),
            body=ClockRequest,
            successes={200: AnswerDescription("The new time of the sandbox.", ClockRecord)},
        )

    async def advance(self, call: Call[ClockRequest, NoQuery]) -> Answer:
        """Advance the clock."""
        await self._clock.advance(call.body.advance)
        await self._clock.wait_for_others()
        return json_answer(ClockRecord(now=timestamp(self._clock())))

    def _route_to_pay(self, base: str) -> Route:
        return Route(
            method="POST",
            path=f"{base}/sandbox/charges/{{id}}/pay",
            endpoint=self.pay,
            name="paySandboxCharge",
            summary="Pay one of your charges from a payer's account",
            body=PayRequest,
            path_parameters={"id": "The charge's id."},
            successes={200: AnswerDescription("The charge is paid.", ChargeRecord)},
            refusals=(
                ChargeNotFound,
                ChargeNotPayable,
                OwnCharge,
                *_REFUSALS_OF_THE_LEDGER,
            ),
        )

    async def pay(self, call: Call[PayRequest, NoQuery]) -> Answer:
        """Pay the caller's charge from the payer's balance."""
        charge = await self._charges.own_charge(call.partner.account_id, call.path["id"])
        payer = await self._accounts.find(call.body.payer, param="payer")
        await self._charges.pay(charge, payer.id)
        try:
            paid = await self._charges.own_charge(charge.account_id, charge.id)
        except DatabaseUnavailable as error:  # it would say that nothing was written
            raise OutcomeUnknown(error.detail, retry_after_seconds=1) from error
        return json_answer(charge_record(paid, self._portal_url))

    def _route_to_mail(self, base: str) -> Route:
        return Route(
            method="GET",
            path=f"{base}/sandbox/mail",
            endpoint=self.mail,
            name="listSandboxMail",
            summary="Read the sandbox's mail",
            description=(
                "A sandbox sends no mail. The messages to all people are listed here, the "
                "newest first, with the codes and links that confirm emails."
            ),
            query=MailQuery,
            successes={200: AnswerDescription("A page of messages.", Page[MailRecord])},
        )

    async def mail(self, call: Call[NoBody, MailQuery]) -> Answer:
        """Answer with a page of messages."""
        query = call.query
        recipient = parse_text(query.to, EMAIL_CHARACTERS_MAX, param="to")
        if recipient is not None:
            recipient = recipient.strip().lower()
        before = _mail_id_after(query.cursor)
        messages = await self._outbox.newest(recipient, before, query.limit + 1)
        return json_answer(
            make_page(messages, query.limit, record=_mail_record, position=lambda mail: mail.id)
        )

    def _route_to_fund(self, base: str) -> Route:
        return Route(
            method="POST",
            path=f"{base}/sandbox/fund",
            endpoint=self.fund,
            name="fundSandboxAccount",
            summary="Issue money to any account",
            description="Returns the transfer as its recipient sees it.",
            body=FundRequest,
            successes={201: AnswerDescription("The money was issued.", TransferRecord)},
            refusals=(InvalidAmount, *_REFUSALS_OF_THE_LEDGER),
        )

    async def fund(self, call: Call[FundRequest, NoQuery]) -> Answer:
        """Issue money to the account."""
        amount = micros_from_json(bytes(call.body.amount))
        account = await self._accounts.find(call.body.to, param="to")
        posted = await fund_through(self._posting_queue, self._clock, account, amount)
        assert isinstance(posted.outcome, Movement), (
            "without an idempotency key, nothing is replayed"
        )
        assert posted.credit_account is not None
        assert posted.debit_account is not None
        record = transfer_record(posted.outcome.credit, posted.credit_account, posted.debit_account)
        return json_answer(record, status=201)


def _mail_id_after(cursor: str | None) -> str:
    """Return the id of the message after which the page continues, or refuse the cursor."""
    if cursor is None:
        return AFTER_ALL_MAIL
    mail_id = text_from_cursor(cursor)
    if not _MAIL_ID.fullmatch(mail_id):
        raise invalid_cursor()
    return mail_id


def _mail_record(mail: Mail) -> MailRecord:
    return MailRecord(
        to=mail.recipient,
        subject=mail.subject,
        text=mail.text,
        created_at=timestamp(mail.created_at),
    )
