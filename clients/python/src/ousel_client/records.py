"""The records in answers, with exact amounts, and times with a time zone."""

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Final, Generic, Literal, TypeVar

Record = TypeVar("Record")

FINAL_STATUSES: Final = frozenset({"paid", "canceled", "expired"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account as anyone sees it. `username` is without the @."""

    id: str
    username: str
    account_number: str
    display_name: str
    status: Literal["active", "frozen"]
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder(Account):
    """An account as its holder sees it."""

    email: str
    email_verified: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """The app that the key belongs to."""

    client_id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnAccount(Holder):
    """The account that owns the key, and the app that the key belongs to."""

    app: App


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """The balance of an account."""

    account_id: str
    currency: str
    available: Decimal
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """An account as the other side of a transfer sees it."""

    id: str
    username: str
    account_number: str
    display_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """A completed transfer, as seen by the account that reads it."""

    id: str
    status: Literal["completed"]
    kind: Literal["transfer", "charge_payment", "funding", "redemption"]
    direction: Literal["out", "in"]
    amount: Decimal
    currency: str
    from_: Party = field(metadata={"name": "from"})
    to: Party
    note: str | None
    charge_id: str | None
    sequence: int
    balance_after: Decimal
    idempotency_key: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Payer:
    """Who paid a charge."""

    id: str
    username: str
    display_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """A request to be paid, and its outcome."""

    id: str
    status: Literal["created", "paid", "canceled", "expired"]
    amount: Decimal
    currency: str
    description: str | None
    reference: str | None
    success_url: str | None
    cancel_url: str | None
    checkout_url: str
    created_at: datetime
    expires_at: datetime
    paid_at: datetime | None
    canceled_at: datetime | None
    paid_by: Payer | None
    transfer_id: str | None

    @property
    def is_final(self) -> bool:
        """Whether the status will never change again."""
        return self.status in FINAL_STATUSES


@dataclass(frozen=True, slots=True, kw_only=True)
class UserToken:
    """A user token, and what an app may read with it. The repr does not show the token."""

    access_token: str = field(repr=False)
    token_type: str
    expires_in: int
    scope: str
    user_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxMail:
    """A message that the sandbox would have sent if it were live."""

    to: str
    subject: str
    text: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxTime:
    """The time of the sandbox's clock."""

    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Record]):
    """One page of a list."""

    data: list[Record]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalGrade:
    """The verdict of a sandbox's lab on one rule."""

    rule: str
    verdict: Literal["passed", "failed", "not_shown"]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """A rehearsal in a sandbox's lab, with the grades of your software so far."""

    id: str
    rehearsal: str
    status: Literal["running", "ended"]
    result: Literal["passed", "failed", "incomplete"]
    started_at: datetime
    ends_at: datetime
    return_url: str | None
    grades: list[RehearsalGrade]
