"""Accounts and balances as answers show them."""

from typing import Annotated, Literal

import msgspec

from ousel.accounts.service import AccountWithEmail
from ousel.api.fields import Currency, Money, Time, money_field
from ousel.kernel.clock import timestamp
from ousel.kernel.money import CURRENCY
from ousel.ledger.rules import Account


class AccountRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An account as anyone may see it."""

    object: Literal["account"] = "account"
    id: str
    username: Annotated[str, msgspec.Meta(description="Without the @.")]
    account_number: str
    display_name: str
    status: Literal["active", "frozen"]
    created_at: Time


class HolderRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An account as its holder sees it."""

    object: Literal["account"] = "account"
    id: str
    username: Annotated[str, msgspec.Meta(description="Without the @.")]
    account_number: str
    email: str
    email_verified: Annotated[
        bool,
        msgspec.Meta(
            description="Whether the holder has confirmed this email. Only then can it be used to"
            " find or pay the account."
        ),
    ]
    display_name: str
    status: Literal["active", "frozen"]
    created_at: Time


class BalanceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What an account can spend."""

    object: Literal["balance"] = "balance"
    account_id: str
    currency: Currency = CURRENCY
    available: Money
    updated_at: Time


def account_record(account: Account) -> AccountRecord:
    """Return the account as anyone may see it."""
    return AccountRecord(
        id=account.id,
        username=account.username,
        account_number=account.account_number,
        display_name=account.display_name,
        status=account.status,
        created_at=timestamp(account.created_at),
    )


def holder_record(found: AccountWithEmail) -> HolderRecord:
    """Return the account as its holder sees it."""
    account = found.account
    return HolderRecord(
        id=account.id,
        username=account.username,
        account_number=account.account_number,
        email=found.email.address,
        email_verified=found.email.is_confirmed,
        display_name=account.display_name,
        status=account.status,
        created_at=timestamp(account.created_at),
    )


def balance_record(account: Account) -> BalanceRecord:
    """Return what the account can spend."""
    return BalanceRecord(
        account_id=account.id,
        available=money_field(account.balance),
        updated_at=timestamp(account.updated_at),
    )
