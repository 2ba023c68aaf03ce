"""The records that the interface answers with: exact amounts, times with a zone."""

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Final, Generic, Literal, TypeVar

Record = TypeVar("Record")

FINAL_STATUSES: Final = frozenset({"paid", "canceled", "expired"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account as anyone may see it; `username` is without the @."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """The app whose key calls."""

    client_id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnAccount(Holder):
    """The key owner's account, and the app whose key calls."""

    app: App


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """What an account can spend."""

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
    """A movement of money, whole and final, as the reader sees it."""

    id: str
    status: Literal["completed"]
    kind: Literal["transfer", "charge_payment", "funding"]
    direction: Literal["out", "in"]
    amount: Decimal
    currency: str
    from_: Party = field(metadata={"name": "from"})
    to: Party
    note: str | None
    charge_id: str | None
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
    """An amount that was asked for, and what became of it."""

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
    """A user token, and what it lets an app read; its repr does not show it."""

    access_token: str = field(repr=False)
    token_type: str
    expires_in: int
    scope: str
    user_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxTime:
    """What the sandbox's clock says."""

    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Record]):
    """One page of a list, newest first."""

    data: list[Record]
    next_cursor: str | None
